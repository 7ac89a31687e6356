#include "tests/ops/row.h"
tandem::test::Rows tandem::test::shape_rows() { return {}; }

#include "tests/ops/row.h"
tandem::test::Rows tandem::test::norm_rows() { return {}; }

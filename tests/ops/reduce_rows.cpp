#include "tests/ops/row.h"
tandem::test::Rows tandem::test::reduce_rows() { return {}; }

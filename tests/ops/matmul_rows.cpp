#include "tests/ops/row.h"
tandem::test::Rows tandem::test::matmul_rows() { return {}; }

#include "tests/ops/row.h"
tandem::test::Rows tandem::test::softmax_rows() { return {}; }

#include "tests/ops/row.h"
tandem::test::Rows tandem::test::conv_rows() { return {}; }

#include "tests/ops/row.h"
tandem::test::Rows tandem::test::pool_rows() { return {}; }

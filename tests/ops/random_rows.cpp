#include "tests/ops/row.h"
tandem::test::Rows tandem::test::random_rows() { return {}; }

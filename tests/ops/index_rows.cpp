#include "tests/ops/row.h"
tandem::test::Rows tandem::test::index_rows() { return {}; }

#include "tests/ops/row.h"
tandem::test::Rows tandem::test::loss_rows() { return {}; }

// Checks of the harness on a row; each reports through Catch.
#pragma once

#include <map>

#include "autograd/op.h"
#include "tests/ops/row.h"

namespace tandem::test {

// The rows that TANDEM_TEST_ROWS and TANDEM_TEST_SHARD select; all without them.
const std::vector<const Row*>& asked_rows();

TensorList make_inputs(const Row& row, const Shapes& shapes, DType dtype, std::uint64_t seed = 1);

// Values, shape and dtype against the oracle; the same bits twice; inputs untouched.
void check_forward(const Row& row, DType dtype);
void check_points(const Row& row, DType dtype);
// Central differences in f64.
void check_gradient(const Row& row);
void check_second_gradient(const Row& row);
// First-order gradients against those in f64 on the CPU, and their dtypes.
void check_gradient_in(const Row& row, DType dtype);
// Gradients written into, and added to, flat buffers that held NaN.
void check_sinks(const Row& row);
// Gradients that meet those of another consumer, earlier and later on the tape.
void check_meeting(const Row& row, DType dtype);
// The op does not write over a gradient that another tensor has as well.
void check_held(const Row& row, DType dtype);
// What the cast rule says of inputs and outputs, observed at the op; leaves get f32 gradients.
void check_autocast(const Row& row, DType low);
// A missing input is a UserError or legal, never worse.
void check_absent(const Row& row);
void check_refusals(const Row& row);

// Names of the ops that no row is for.
std::vector<std::string> ops_without_row(const std::vector<const OpInfo*>& infos, const Rows& rows);

// The ops that running the row executes, with their rules.
std::map<std::string, CastRule> executed_ops(const Row& row);

}  // namespace tandem::test

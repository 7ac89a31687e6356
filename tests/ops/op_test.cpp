// Each row against each property, and each op against the list of rows.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <set>

#include "autograd/apply.h"
#include "autograd/ops/all_ops.h"
#include "tests/ops/harness.h"
#include "tests/ops/shard.h"
#include "tests/support/tensors.h"

using namespace tandem;
using namespace tandem::test;

namespace tandem::test {

const Rows& all_rows() {
  static const Rows rows = [] {
    Rows all;
    const auto add = [&all](const char* family, Rows of_family) {
      for (Row& row : of_family) {
        row.family = family;
        all.push_back(std::move(row));
      }
    };
    add("elementwise", elementwise_rows());
    add("elementwise", pairs_rows());
    add("reduce", reduce_rows());
    add("matmul", matmul_rows());
    add("conv", conv_rows());
    add("pool", pool_rows());
    add("norm", norm_rows());
    add("softmax", softmax_rows());
    add("loss", loss_rows());
    add("index", index_rows());
    add("shape", shape_rows());
    add("random", random_rows());
    add("rnn", rnn_rows());
    add("attention", attention_rows());
    add("boxes", boxes_rows());
    return all;
  }();
  return rows;
}

namespace {

// TANDEM_TEST_ROWS, families separated by commas: only theirs are checked (tests/check).
bool is_of_asked_families(const Row& row) {
  const char* families = std::getenv("TANDEM_TEST_ROWS");
  return !families || ("," + std::string(families) + ",").find("," + row.family + ",") != std::string::npos;
}

}  // namespace

// Of those, with TANDEM_TEST_SHARD=i/n, one of n shares (tests/gpu/visit).
const std::vector<const Row*>& asked_rows() {
  static const std::vector<const Row*> asked = [] {
    const char* text = std::getenv("TANDEM_TEST_SHARD");
    const Shard shard(text ? text : "1/1");
    std::vector<const Row*> rows;
    std::size_t number = 0;
    for (const Row& row : all_rows())
      if (is_of_asked_families(row) && shard.has(number++)) rows.push_back(&row);
    return rows;
  }();
  return asked;
}

}  // namespace tandem::test

namespace {

template <class Check>
void for_each_row(Check&& check) {
  for (const Row* row : asked_rows()) {
    DYNAMIC_SECTION(to_string(*row)) { check(*row); }
  }
}

}  // namespace

TEST_CASE("every op has a row", "[ops]") {
  CHECK(ops_without_row(all_op_infos(), all_rows()) == std::vector<std::string>{});
}

TEST_CASE("a row is named once and runs the op it names", "[ops]") {
  std::set<std::string> seen;
  for (const Row& row : all_rows()) {
    INFO(to_string(row));
    CHECK(seen.insert(to_string(row)).second);
    CHECK(executed_ops(row).count(row.op) == 1);
  }
}

TEST_CASE("forward agrees with the oracle in every dtype", "[ops]") {
  for_each_row([](const Row& row) {
    for (const DType dtype : kFloatingTypes) check_forward(row, dtype);
    if (row.integers) {
      for (const DType dtype : {DType::i64, DType::i32, DType::u8}) check_forward(row, dtype);
    }
  });
}

TEST_CASE("forward agrees with the oracle at special points", "[ops]") {
  for_each_row([](const Row& row) {
    if (row.points.empty()) return;
    check_points(row, DType::f64);
    check_points(row, DType::f32);
  });
}

TEST_CASE("gradients agree with central differences", "[ops]") {
  for_each_row([](const Row& row) {
    if (row.gradient) check_gradient(row);
  });
}

TEST_CASE("gradients of gradients agree with central differences", "[ops]") {
  for_each_row([](const Row& row) {
    if (row.gradient && row.twice) check_second_gradient(row);
  });
}

TEST_CASE("gradients in f32 and 16 bits agree with those in f64", "[ops]") {
  for_each_row([](const Row& row) {
    if (!row.gradient) return;
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) check_gradient_in(row, dtype);
    if (test_device().type != DeviceType::cpu) check_gradient_in(row, DType::f64);
  });
}

TEST_CASE("gradients are written into flat buffers and added to them", "[ops]") {
  for_each_row([](const Row& row) {
    if (row.gradient) check_sinks(row);
  });
}

TEST_CASE("gradients of several consumers add up", "[ops]") {
  for_each_row([](const Row& row) {
    if (!row.gradient) return;
    for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) check_meeting(row, dtype);
  });
}

TEST_CASE("a gradient that another tensor has too is not written over", "[ops]") {
  for_each_row([](const Row& row) {
    if (row.gradient) check_held(row, DType::f32);
  });
}

TEST_CASE("autocast follows the cast rule", "[ops]") {
  for_each_row([](const Row& row) {
    for (const DType low : {DType::f16, DType::bf16}) check_autocast(row, low);
  });
}

TEST_CASE("a missing input is never worse than a user error", "[ops]") {
  for_each_row([](const Row& row) { check_absent(row); });
}

TEST_CASE("documented errors are thrown", "[ops]") {
  for_each_row([](const Row& row) { check_refusals(row); });
}

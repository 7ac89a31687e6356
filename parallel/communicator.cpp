#include "parallel/communicator.h"

#include <algorithm>
#include <cstdint>
#include <numeric>

namespace tandem::parallel {

namespace {

void check_deadline(std::string_view where, double deadline_s) {
  require(deadline_s > 0, where, "a deadline must be a positive number of seconds, got {}", deadline_s);
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void check_reduced(std::string_view where, DType dtype) {
  require(is_floating(dtype) || dtype == DType::i64, where,
          "{} cannot be reduced; supported are f64, f32, f16, bf16 and i64", name_of(dtype));
}

std::size_t checked_total(std::string_view where, std::span<const std::size_t> counts, int ranks) {
  require(counts.size() == static_cast<std::size_t>(ranks), where, "got {} counts for {} ranks",
          counts.size(), ranks);
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

void check_part(std::string_view where, const ConstElements& part, const ConstElements& all,
                std::span<const std::size_t> counts, int rank, int ranks) {
  const std::size_t total = checked_total(where, counts, ranks);
  require(all.count == total, where, "the counts of ranks add up to {}, the buffer has {} elements", total,
          all.count);
  const std::size_t own = counts[static_cast<std::size_t>(rank)];
  require(part.count == own, where, "rank {} has {} elements by the counts, its buffer has {}", rank, own,
          part.count);
  require(part.dtype == all.dtype, where, "one buffer is {}, the other {}", name_of(part.dtype),
          name_of(all.dtype));
}

}  // namespace

bool Pending::test() {
  if (work_ && work_->test()) work_.reset();
  return !work_;
}

void Pending::wait(double deadline_s) {
  check_deadline("wait", deadline_s);
  if (!work_) return;
  work_->wait(deadline_s);
  work_.reset();
}

void Communicator::all_reduce(Elements data, Reduction reduction, double deadline_s) {
  check_deadline("all_reduce", deadline_s);
  start_all_reduce(data, reduction).wait(deadline_s);
}

Pending Communicator::start_all_reduce(Elements data, Reduction reduction) {
  check_reduced("all_reduce", data.dtype);
  if (data.count == 0) return {};
  return do_start_all_reduce(data, reduction);
}

void Communicator::reduce_scatter(ConstElements all, std::span<const std::size_t> counts, Elements own,
                                  Reduction reduction, double deadline_s) {
  check_deadline("reduce_scatter", deadline_s);
  check_reduced("reduce_scatter", all.dtype);
  check_part("reduce_scatter", own, all, counts, rank(), size());
  if (all.count > 0) do_reduce_scatter(all, counts, own, reduction, deadline_s);
}

void Communicator::all_gather(ConstElements own, std::span<const std::size_t> counts, Elements all,
                              double deadline_s) {
  check_deadline("all_gather", deadline_s);
  check_part("all_gather", own, all, counts, rank(), size());
  if (all.count > 0) do_all_gather(own, counts, all, deadline_s);
}

void Communicator::all_gather(ConstElements own, Elements all, double deadline_s) {
  const std::vector<std::size_t> counts(static_cast<std::size_t>(size()), own.count);
  all_gather(own, counts, all, deadline_s);
}

std::vector<std::vector<std::byte>> Communicator::all_gather_bytes(std::span<const std::byte> own,
                                                                   double deadline_s) {
  const auto ranks = static_cast<std::size_t>(size());
  std::vector<std::int64_t> lengths(ranks);
  const std::int64_t length = static_cast<std::int64_t>(own.size());
  all_gather(std::span(&length, 1), lengths, deadline_s);
  const std::vector<std::size_t> counts(lengths.begin(), lengths.end());
  std::vector<std::byte> all(std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
  all_gather(own, counts, all, deadline_s);
  std::vector<std::vector<std::byte>> gathered;
  auto next = all.cbegin();
  for (const std::size_t count : counts) {
    const auto end = next + static_cast<std::ptrdiff_t>(count);
    gathered.emplace_back(next, end);
    next = end;
  }
  return gathered;
}

void Communicator::all_to_all(ConstElements outgoing, std::span<const std::size_t> outgoing_counts,
                              Elements incoming, std::span<const std::size_t> incoming_counts,
                              double deadline_s) {
  constexpr std::string_view kWhere = "all_to_all";
  check_deadline(kWhere, deadline_s);
  const std::size_t sent = checked_total(kWhere, outgoing_counts, size());
  const std::size_t received = checked_total(kWhere, incoming_counts, size());
  const auto self = static_cast<std::size_t>(rank());
  require(outgoing_counts[self] == incoming_counts[self], kWhere,
          "rank {} sends {} elements to itself and expects {}", rank(), outgoing_counts[self],
          incoming_counts[self]);
  require(outgoing.count == sent && incoming.count == received, kWhere,
          "the counts of ranks add up to {} sent and {} received, the buffers have {} and {} elements", sent,
          received, outgoing.count, incoming.count);
  require(outgoing.dtype == incoming.dtype, kWhere, "one buffer is {}, the other {}", name_of(outgoing.dtype),
          name_of(incoming.dtype));
  do_all_to_all(outgoing, outgoing_counts, incoming, incoming_counts, deadline_s);
}

void Communicator::broadcast(Elements data, int root, double deadline_s) {
  check_deadline("broadcast", deadline_s);
  require(root >= 0 && root < size(), "broadcast", "{} is not a rank: there are {}, numbered from 0", root,
          size());
  if (data.count > 0) do_broadcast(data, root, deadline_s);
}

std::vector<std::byte> Communicator::broadcast_bytes(std::span<const std::byte> data, int root,
                                                     double deadline_s) {
  auto length = static_cast<std::int64_t>(data.size());
  broadcast(std::span(&length, 1), root, deadline_s);
  std::vector<std::byte> bytes(static_cast<std::size_t>(length));
  if (rank() == root) std::ranges::copy(data, bytes.begin());
  broadcast(bytes, root, deadline_s);
  return bytes;
}

std::vector<std::string> Communicator::all_gather_text(std::string_view own, double deadline_s) {
  std::vector<std::string> texts;
  for (const auto& bytes : all_gather_bytes(std::as_bytes(std::span(own)), deadline_s))
    texts.push_back(text_of(bytes));
  return texts;
}

std::string Communicator::broadcast_text(std::string_view text, int root, double deadline_s) {
  return text_of(broadcast_bytes(std::as_bytes(std::span(text)), root, deadline_s));
}

std::vector<std::vector<std::byte>> Communicator::gather_bytes(std::span<const std::byte> own,
                                                               double deadline_s) {
  check_deadline("gather", deadline_s);
  return do_gather_bytes(own, deadline_s);
}

RankError Communicator::absence_elsewhere(std::uint64_t, double waited_s) {
  return {"wait", fmt::format("the device has not finished after {:.3g} s", waited_s), {}};
}

void Communicator::barrier(double deadline_s) {
  check_deadline("barrier", deadline_s);
  do_barrier(deadline_s);
}

}  // namespace tandem::parallel

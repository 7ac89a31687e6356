#include "parallel/one_process.h"

#include <cstdlib>
#include <cstring>

#include "parallel/abort_message.h"

namespace tandem::parallel {

namespace {

void put(const ConstElements& from, const Elements& to) {
  if (from.data != to.data && from.count > 0) std::memcpy(to.data, from.data, from.bytes());
}

}  // namespace

std::string OneProcess::description() const { return "one process"; }

void OneProcess::abort(std::string_view message, int exit_code) {
  write_abort_message(words_of_rank(0, 1, message));
  std::_Exit(exit_code);
}

Pending OneProcess::do_start_all_reduce(Elements, Reduction) { return {}; }

void OneProcess::do_reduce_scatter(ConstElements all, std::span<const std::size_t>, Elements own, Reduction,
                                   double) {
  put(all, own);
}

void OneProcess::do_all_gather(ConstElements own, std::span<const std::size_t>, Elements all, double) {
  put(own, all);
}

void OneProcess::do_all_to_all(ConstElements outgoing, std::span<const std::size_t>, Elements incoming,
                               std::span<const std::size_t>, double) {
  put(outgoing, incoming);
}

void OneProcess::do_broadcast(Elements, int, double) {}

std::vector<std::vector<std::byte>> OneProcess::do_gather_bytes(std::span<const std::byte> own, double) {
  std::vector<std::vector<std::byte>> gathered;
  gathered.emplace_back(own.begin(), own.end());
  return gathered;
}

void OneProcess::do_barrier(double) {}

}  // namespace tandem::parallel

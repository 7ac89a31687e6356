// Communicator of a single process: no waiting, and copies only between different buffers.
#pragma once

#include "parallel/communicator.h"

namespace tandem::parallel {

class OneProcess final : public Communicator {
 public:
  OneProcess() : Communicator(0, 1) {}

  std::string description() const override;
  [[noreturn]] void abort(std::string_view message, int exit_code = 1) override;

 private:
  Pending do_start_all_reduce(Elements data, Reduction reduction) override;
  void do_reduce_scatter(ConstElements all, std::span<const std::size_t> counts, Elements own,
                         Reduction reduction, double deadline_s) override;
  void do_all_gather(ConstElements own, std::span<const std::size_t> counts, Elements all,
                     double deadline_s) override;
  void do_all_to_all(ConstElements outgoing, std::span<const std::size_t> outgoing_counts, Elements incoming,
                     std::span<const std::size_t> incoming_counts, double deadline_s) override;
  void do_broadcast(Elements data, int root, double deadline_s) override;
  std::vector<std::vector<std::byte>> do_gather_bytes(std::span<const std::byte> own,
                                                      double deadline_s) override;
  void do_barrier(double deadline_s) override;
};

}  // namespace tandem::parallel

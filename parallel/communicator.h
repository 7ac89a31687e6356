// Communicator: collectives between the processes of one training.
//
// A Communicator joins size() processes, its ranks 0 … size() - 1. All ranks make the same calls in the same
// order, with the same counts, dtypes and roots; an asynchronous call counts where it is started. A call
// returns when this rank's part is done; only `barrier` waits for the others.
//
// Memory is host memory; the caller copies to and from devices. Buffers may be empty, of any length, and
// larger than 2³¹ bytes; a call without elements sends nothing. Calls come from one thread at a time.
//
// Every waiting call takes a deadline, in seconds of this process's running time (time in which it was
// stopped does not count). After it, RankError names the missing rank, the time waited, and the way out;
// every later call throws the same. UserError: a non-positive deadline, an invalid root, counts or dtypes
// that do not fit. VendorError: errors of the underlying library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parallel/elements.h"
#include "parallel/rank_error.h"

namespace tandem::parallel {

// For f64, f32, f16, bf16 and i64. 16-bit sums are computed in f32 and rounded at every addition, or once.
// The order of addition is up to the communicator, but all ranks get the same bits. NaN on any rank makes
// every reduction NaN, including min and max (which NaN may differ). Sums of i64 wrap around.
enum class Reduction { sum, min, max };

// A started operation. Its buffer belongs to the communicator until it has finished. Dropping it earlier
// breaks the communicator, as a RankError does.
class Pending {
 public:
  // One implementation per communicator.
  class Work {
   public:
    virtual ~Work() = default;
    virtual bool test() = 0;
    virtual void wait(double deadline_s) = 0;
  };

  Pending() = default;  // finished
  explicit Pending(std::unique_ptr<Work> work) : work_(std::move(work)) {}

  // Makes progress without waiting; true when finished.
  bool test();
  // Waits until finished.
  void wait(double deadline_s);

 private:
  std::unique_ptr<Work> work_;  // absent when finished
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  // One line for users: implementation, version, numbers of ranks and hosts.
  virtual std::string description() const = 0;

  // Replaces each element by its reduction over all ranks.
  void all_reduce(Elements data, Reduction reduction, double deadline_s);
  // Starts the same. It makes progress only while this or any other call tests or waits.
  Pending start_all_reduce(Elements data, Reduction reduction);
  // For a single value.
  template <class T>
  T all_reduce_value(T value, Reduction reduction, double deadline_s) {
    all_reduce(std::span<T>(&value, 1), reduction, deadline_s);
    return value;
  }

  // `all` has counts[r] elements for rank r, in order; `own` receives the reduction of this rank's part.
  // `own` may be that part of `all`, and must not overlap with the rest. The other parts of `all` are
  // unchanged.
  void reduce_scatter(ConstElements all, std::span<const std::size_t> counts, Elements own,
                      Reduction reduction, double deadline_s);

  // Concatenates the ranks' buffers: `all` receives counts[r] elements of rank r, in order. `own` may be this
  // rank's part of `all`.
  void all_gather(ConstElements own, std::span<const std::size_t> counts, Elements all, double deadline_s);
  // With equal counts: all.count = size() · own.count.
  void all_gather(ConstElements own, Elements all, double deadline_s);
  // For lengths known only to the owners: element r of the result is rank r's.
  std::vector<std::vector<std::byte>> all_gather_bytes(std::span<const std::byte> own, double deadline_s);

  // Rank r receives outgoing_counts[r] elements of `outgoing`, in order; those of rank q are the q-th part of
  // `incoming`, incoming_counts[q] elements. The buffers do not overlap.
  void all_to_all(ConstElements outgoing, std::span<const std::size_t> outgoing_counts, Elements incoming,
                  std::span<const std::size_t> incoming_counts, double deadline_s);

  // Sends `data` of rank `root` to all.
  void broadcast(Elements data, int root, double deadline_s);
  // The same for a length known only to `root`; the argument of other ranks is ignored.
  std::vector<std::byte> broadcast_bytes(std::span<const std::byte> data, int root, double deadline_s);

  // To rank 0: element r of its result is rank r's. The other ranks get nothing, and wait only for sending.
  std::vector<std::vector<std::byte>> gather_bytes(std::span<const std::byte> own, double deadline_s);

  // The same as texts.
  std::vector<std::string> all_gather_text(std::string_view own, double deadline_s);
  std::string broadcast_text(std::string_view text, int root, double deadline_s);

  // Returns when every rank has called it.
  void barrier(double deadline_s);

  // For calls outside of this communicator (parallel/nccl). Counts such a call among those of all ranks and
  // returns its number. While waiting for it, `look` shows that this rank waits, and answers other ranks.
  virtual std::uint64_t begin_elsewhere() { return 0; }
  virtual void end_elsewhere(std::uint64_t /*number*/) {}
  virtual void look() {}
  // The error that names the ranks to blame for a timeout.
  virtual RankError absence_elsewhere(std::uint64_t number, double waited_s);

  // Ends every rank, this one with `exit_code`, which is not 0, without unwinding: for a failure unknown to
  // the others. Prints `message` with the rank on stderr; if several ranks of a host fail together, only the
  // first prints.
  [[noreturn]] virtual void abort(std::string_view message, int exit_code = 1) = 0;

 protected:
  Communicator(int rank, int size) : rank_(rank), size_(size) {}

 private:
  // Called with checked arguments that are not empty on every rank.
  virtual Pending do_start_all_reduce(Elements data, Reduction reduction) = 0;
  virtual void do_reduce_scatter(ConstElements all, std::span<const std::size_t> counts, Elements own,
                                 Reduction reduction, double deadline_s) = 0;
  virtual void do_all_gather(ConstElements own, std::span<const std::size_t> counts, Elements all,
                             double deadline_s) = 0;
  virtual void do_all_to_all(ConstElements outgoing, std::span<const std::size_t> outgoing_counts,
                             Elements incoming, std::span<const std::size_t> incoming_counts,
                             double deadline_s) = 0;
  virtual void do_broadcast(Elements data, int root, double deadline_s) = 0;
  virtual std::vector<std::vector<std::byte>> do_gather_bytes(std::span<const std::byte> own,
                                                              double deadline_s) = 0;
  virtual void do_barrier(double deadline_s) = 0;

  int rank_, size_;
};

}  // namespace tandem::parallel

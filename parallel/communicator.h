// What the processes of one training say to each other.
//
// A Communicator joins size() processes, its ranks 0 … size() - 1. All ranks make the same calls in the same
// order, with the same counts, dtypes and roots; asynchronous calls count where they are begun. A call
// returns when this rank's part is done, which says nothing of the others, save for `barrier`.
//
// Memory is the host's: what lies on a device is the caller's to copy. Buffers may be empty, of any length,
// and larger than 2³¹ bytes; a call of no elements at all sends nothing. Calls are of one thread at a time.
//
// Every call that waits takes a deadline, in seconds of this process's own running (time for which it was
// stopped itself does not count). When it passes, RankError names the rank that did not come, how long it was
// waited for, and the way out; every later call throws the same. UserError: a deadline that is not positive,
// a root that is no rank, counts or dtypes that do not fit. VendorError: what the library below reports.
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

// Of f64, f32, f16, bf16 and i64. 16-bit sums are computed in f32 and rounded at every addition, or once.
// The order in which ranks are added is the communicator's own, but all ranks get the same bits. NaN of any
// rank makes every reduction NaN, min and max, too (which NaN may differ). Sums of i64 wrap around.
enum class Reduction { sum, min, max };

// What has been begun and may not have ended. Its buffer is the communicator's until then. To drop one before
// it has ended leaves the communicator of no more use, as RankError does.
class Pending {
 public:
  // One implementation a communicator.
  class Work {
   public:
    virtual ~Work() = default;
    virtual bool test() = 0;
    virtual void wait(double deadline_s) = 0;
  };

  Pending() = default;  // has ended
  explicit Pending(std::unique_ptr<Work> work) : work_(std::move(work)) {}

  // Helps it along, waits for nobody; true when it has ended.
  bool test();
  // Until it has ended.
  void wait(double deadline_s);

 private:
  std::unique_ptr<Work> work_;  // absent when it has ended
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  // One line for people: what it is, its version, how many ranks on how many hosts.
  virtual std::string description() const = 0;

  // Each element becomes the reduction of that element of all ranks.
  void all_reduce(Elements data, Reduction reduction, double deadline_s);
  // The same, begun only. It goes on while this or any other call tests or waits; nothing runs between them.
  Pending start_all_reduce(Elements data, Reduction reduction);
  // Of a single value.
  template <class T>
  T all_reduce_value(T value, Reduction reduction, double deadline_s) {
    all_reduce(std::span<T>(&value, 1), reduction, deadline_s);
    return value;
  }

  // `all` is divided among the ranks, counts[r] elements for rank r, in order; `own` gets the reduction of
  // this rank's part. `own` may be that part of `all` itself, and must not overlap with the rest of it. What
  // lies elsewhere in `all` is left alone.
  void reduce_scatter(ConstElements all, std::span<const std::size_t> counts, Elements own,
                      Reduction reduction, double deadline_s);

  // The inverse of division: `all` gets counts[r] elements of rank r, in order. `own` may be this rank's part
  // of `all`.
  void all_gather(ConstElements own, std::span<const std::size_t> counts, Elements all, double deadline_s);
  // As many of every rank: all.count = size() · own.count.
  void all_gather(ConstElements own, Elements all, double deadline_s);
  // Of lengths that only their owners know: element r of the result is what rank r gave.
  std::vector<std::vector<std::byte>> all_gather_bytes(std::span<const std::byte> own, double deadline_s);

  // Rank r gets outgoing_counts[r] elements of `outgoing`, in order, and finds those of rank q as the q-th of
  // `incoming`, incoming_counts[q] of them. The two do not overlap.
  void all_to_all(ConstElements outgoing, std::span<const std::size_t> outgoing_counts, Elements incoming,
                  std::span<const std::size_t> incoming_counts, double deadline_s);

  // `data` of rank `root` to all.
  void broadcast(Elements data, int root, double deadline_s);
  // Of a length that only `root` knows: what it gave, on every rank. What the others give does not matter.
  std::vector<std::byte> broadcast_bytes(std::span<const std::byte> data, int root, double deadline_s);

  // To rank 0: element r of its result is what rank r gave. The others get nothing, and do not wait for more
  // than the sending.
  std::vector<std::vector<std::byte>> gather_bytes(std::span<const std::byte> own, double deadline_s);

  // Returns when every rank has called it.
  void barrier(double deadline_s);

  // For who waits for the ranks in another way (parallel/nccl). A call that goes that way is counted among
  // those of all ranks: its number. While it is waited for, `look` shows that this rank waits, and answers
  // those that ask.
  virtual std::uint64_t begin_elsewhere() { return 0; }
  virtual void end_elsewhere(std::uint64_t /*number*/) {}
  virtual void look() {}
  // Who is to blame that it did not end.
  virtual RankError absence_elsewhere(std::uint64_t number, double waited_s);

  // Ends every rank, this one with `exit_code`, which is not 0, without unwinding: for a failure that the
  // others cannot know of. `message` is printed on stderr with the rank; of several ranks of a host that fail
  // together, the first is heard.
  [[noreturn]] virtual void abort(std::string_view message, int exit_code = 1) = 0;

 protected:
  Communicator(int rank, int size) : rank_(rank), size_(size) {}

 private:
  // Called with arguments that have been checked, and that are not empty on every rank.
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

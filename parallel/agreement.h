// Agreement: work that every rank does alone, where a failure on one rank must fail all.
//
// At the start and the end of a run, ranks open files, read configurations and write results. A failure of
// one rank is sent to the others, so that all stop at the same place with the same message and exit code, and
// only the first failing rank prints it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "core/error.h"
#include "parallel/communicator.h"

namespace tandem::parallel {

// Thrown on every rank with the same message: that of the first rank that failed, with its number unless
// every rank failed with this message.
class [[gnu::visibility("default")]] AgreedError : public Error {
 public:
  // `users_mistake`: a UserError on the rank that failed.
  AgreedError(const std::string& message, bool users_mistake)
      : Error("", message), users_mistake_(users_mistake) {}

  bool users_mistake() const { return users_mistake_; }

 private:
  bool users_mistake_;
};

// Outcome of one rank's work.
struct Ending {
  bool failed = false, users_mistake = false;
  std::string message{};
};

// Runs the work and catches its exceptions, including out of memory.
Ending ending_of(const std::function<void()>& work);
// Exchanges the outcomes of all ranks, and throws AgreedError on all of them if one failed.
void agree_on(Communicator& ranks, const Ending& own, double deadline_s);
// The common error of all ranks' outcomes, if any.
std::optional<AgreedError> error_of(std::span<const Ending> endings);

// Returns the result of `work` on every rank, or throws AgreedError on every rank. A single process throws
// the exception of `work` itself. `work` must not communicate, because the others would wait for a failed
// rank.
template <class Work>
auto together(Communicator& ranks, double deadline_s, Work&& work) {
  using Result = std::invoke_result_t<Work>;
  if (ranks.size() == 1) return work();
  if constexpr (std::is_void_v<Result>) {
    agree_on(ranks, ending_of(work), deadline_s);
  } else {
    std::optional<Result> result;
    agree_on(ranks, ending_of([&] { result.emplace(work()); }), deadline_s);
    return Result(std::move(*result));
  }
}

}  // namespace tandem::parallel

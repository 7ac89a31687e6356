// Work that every rank does by itself, and whose failure on one rank is the failure of all.
//
// Before a run begins, and where it ends, ranks open files, read configurations, write what is left to write.
// What goes wrong there on one of them is told to the others, so that all stop in the same place with the
// same words and the same exit code, and one of them, the first, tells it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "core/error.h"
#include "parallel/communicator.h"

namespace tandem::parallel {

// Thrown on every rank, with the same words: of the first rank that failed, after its number unless every
// rank failed with them.
class [[gnu::visibility("default")]] AgreedError : public Error {
 public:
  // `users_mistake`: a UserError on the rank that failed.
  AgreedError(const std::string& message, bool users_mistake)
      : Error("", message), users_mistake_(users_mistake) {}

  bool users_mistake() const { return users_mistake_; }

 private:
  bool users_mistake_;
};

// How the work of one rank ended.
struct Ending {
  bool failed = false, users_mistake = false;
  std::string message{};
};

// Does the work; what it throws is the ending. Memory that is not there is a failure like any other.
Ending ending_of(const std::function<void()>& work);
// Waits for the endings of all ranks, and throws AgreedError on all of them where one failed.
void agree_on(Communicator& ranks, const Ending& own, double deadline_s);
// The error that these endings of all ranks are, if they are one.
std::optional<AgreedError> error_of(std::span<const Ending> endings);

// What `work` returns, on every rank, or AgreedError on every rank. A process that is alone gets what `work`
// throws itself. `work` must not communicate: a rank that fails would be waited for.
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

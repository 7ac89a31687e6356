#include "parallel/agreement.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "parallel/abort_message.h"

namespace tandem::parallel {

namespace {

enum class Kind : std::uint8_t { well, users_mistake, failure };

std::vector<std::byte> to_bytes(const Ending& ending) {
  const Kind kind = !ending.failed ? Kind::well : ending.users_mistake ? Kind::users_mistake : Kind::failure;
  std::vector<std::byte> bytes{static_cast<std::byte>(kind)};
  for (const char c : ending.message) bytes.push_back(static_cast<std::byte>(c));
  return bytes;
}

Ending from_bytes(const std::vector<std::byte>& bytes) {
  const auto kind = static_cast<Kind>(bytes.at(0));
  Ending ending{.failed = kind != Kind::well, .users_mistake = kind == Kind::users_mistake};
  for (std::size_t i = 1; i < bytes.size(); ++i) ending.message += static_cast<char>(bytes[i]);
  return ending;
}

}  // namespace

Ending ending_of(const std::function<void()>& work) {
  try {
    work();
    return {};
  } catch (const UserError& error) {
    return {true, true, error.what()};
  } catch (const std::exception& error) {
    return {true, false, error.what()};
  }
}

std::optional<AgreedError> error_of(std::span<const Ending> endings) {
  const auto first = std::ranges::find_if(endings, &Ending::failed);
  if (first == endings.end()) return std::nullopt;
  const bool of_all = std::ranges::all_of(
      endings, [&](const Ending& ending) { return ending.failed && ending.message == first->message; });
  const auto rank = static_cast<int>(first - endings.begin());
  return AgreedError(
      of_all ? first->message : words_of_rank(rank, static_cast<int>(endings.size()), first->message),
      first->users_mistake);
}

void agree_on(Communicator& ranks, const Ending& own, double deadline_s) {
  std::vector<Ending> endings;
  for (const auto& bytes : ranks.all_gather_bytes(to_bytes(own), deadline_s))
    endings.push_back(from_bytes(bytes));
  if (const auto error = error_of(endings)) throw AgreedError(*error);
}

}  // namespace tandem::parallel

#include "parallel/mpi/communicator.h"

#include <chrono>
#include <cstdlib>
#include <exception>
#include <string_view>
#include <thread>

#include "parallel/absence.h"
#include "parallel/exit_watch.h"
#include "parallel/last_words.h"
#include "parallel/patience.h"

namespace tandem::parallel {

namespace {

constexpr double kServeEvery = 0.01;  // seconds between looks for questions
constexpr double kRollCall = 2;       // seconds in which other hosts answer
constexpr double kAbort = 5;          // seconds in which mpirun ends this process

}  // namespace

MpiCommunicator::MpiCommunicator(const MpiLibrary& mpi, const Launch& launch,
                                 const CommunicatorOptions& options)
    : Communicator(launch.rank, launch.size),
      mpi_(mpi),
      options_(options),
      exceptions_(std::uncaught_exceptions()),
      board_(launch.rank, launch.size, options.shared_memory ? launch.session_folder : std::string()),
      roll_call_(mpi, board_) {
  start(launch);
  find_hosts(launch);
}

void MpiCommunicator::start(const Launch& launch) {
  int initialised = 0;
  mpi_.Initialized(&initialised);
  ensure(!initialised, "mpi", "a communicator is opened once in a process");
  Operation operation = begin(Call::start);
  int given = 0;
  {
    const ExitWatch watch(options_.deadline_s, 1, [this, number = operation.number] {
      const Waiting waiting{rank(), size(), Call::start, number, options_.deadline_s};
      // Who is asked first has seen the others while they were there.
      const std::string words = words_of_rank(rank(), size(), absence(board_.read(), waiting, {}).what());
      if (!board_.first_to_abort()) return std::string();
      board_.kill_stopped();
      return words;
    });
    check(mpi_, mpi_.Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &given), "MPI_Init_thread");
  }
  check(mpi_, mpi_.Comm_set_errhandler(mpi_.world, mpi_.errors_return), "MPI_Comm_set_errhandler");
  int mpi_rank = 0, mpi_size = 0;
  check(mpi_, mpi_.Comm_rank(mpi_.world, &mpi_rank), "MPI_Comm_rank");
  check(mpi_, mpi_.Comm_size(mpi_.world, &mpi_size), "MPI_Comm_size");
  if (mpi_rank != launch.rank || mpi_size != launch.size)
    throw VendorError("mpi", fmt::format("mpirun says rank {} of {}, the library says {} of {}: they are of "
                                         "different installations of Open MPI",
                                         launch.rank, launch.size, mpi_rank, mpi_size));
  ensure(given >= MPI_THREAD_SERIALIZED, "mpi", "Open MPI was built without threads");
  test(operation);
}

void MpiCommunicator::wait(Operation& operation, double deadline_s) {
  Patience patience(deadline_s);
  double served_s = 0;
  while (!test(operation)) {
    if (patience.over()) return give_up(operation, patience.waited_s());
    if (patience.waited_s() >= served_s + kServeEvery) {
      roll_call_.serve();
      served_s = patience.waited_s();
    }
    patience.pause();
  }
}

// Returns when the operation has ended after all.
void MpiCommunicator::give_up(Operation& operation, double waited_s) {
  const std::vector<Arrival> arrivals = roll_call_.call(kRollCall);
  if (test(operation)) return;
  const Waiting waiting{rank(), size(), operation.call, operation.number, waited_s};
  const RankError error = absence(arrivals, waiting, hosts_);
  broken_ = error.what();
  throw RankError(error);
}

MpiCommunicator::Operation MpiCommunicator::begin(Call call) {
  if (!broken_.empty()) throw RankError(name_of(call), "the ranks are no longer joined: " + broken_, {});
  Operation operation{call, ++last_};
  open_.insert(last_);
  board_.begun(last_, call);
  board_.ended_below(*open_.begin());
  return operation;
}

bool MpiCommunicator::test(Operation& operation) {
  int ended = 0;
  board_.looked();
  try {
    check(mpi_,
          mpi_.Testall(static_cast<int>(operation.requests.size()), operation.requests.data(), &ended,
                       MPI_STATUSES_IGNORE),
          name_of(operation.call));
  } catch (const VendorError& error) {
    broken_ = error.what();
    throw;
  }
  if (!ended) return false;
  open_.erase(operation.number);
  board_.ended_below(open_.empty() ? last_ + 1 : *open_.begin());
  return true;
}

void MpiCommunicator::add(Operation& operation, std::string_view what,
                          const std::function<int(MPI_Request*)>& post) {
  try {
    check(mpi_, post(&operation.requests.emplace_back(mpi_.request_null)), what);
  } catch (const VendorError& error) {
    broken_ = error.what();
    throw;
  }
}

std::string MpiCommunicator::description() const {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  check(mpi_, mpi_.Get_library_version(text, &length), "MPI_Get_library_version");
  // "Open MPI v4.1.4, package: …"
  const std::string_view version(text, static_cast<std::size_t>(length));
  return fmt::format("{}, {} rank{} on {} host{}", version.substr(0, version.find(',')), size(),
                     size() == 1 ? "" : "s", host_count_, host_count_ == 1 ? "" : "s");
}

void MpiCommunicator::abort(std::string_view message, int exit_code) {
  ensure(exit_code != 0, "abort", "exit code 0 would say that all is well");
  if (board_.first_to_abort()) {
    say_last_words(words_of_rank(rank(), size(), message));
    board_.kill_stopped();
    // Time to pass the line on: mpirun may not get to it once it hears of the end.
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  const ExitWatch watch(kAbort, exit_code, [] { return std::string(); });
  mpi_.Abort(mpi_.world, exit_code);
  std::_Exit(exit_code);
}

MpiCommunicator::~MpiCommunicator() {
  if (!broken_.empty() || !open_.empty() || std::uncaught_exceptions() > exceptions_) return;
  try {
    Operation operation = begin(Call::end);
    add(operation, "MPI_Ibarrier", [&](MPI_Request* request) { return mpi_.Ibarrier(mpi_.world, request); });
    wait(operation, options_.deadline_s);
  } catch (const std::exception& error) {
    abort(error.what());
  }
  // All have come here: what can go wrong now takes no deadline of its own to find out.
  const ExitWatch watch(options_.deadline_s, 1, [this] {
    return words_of_rank(rank(), size(), "MPI_Finalize does not come back: a rank has ended or was stopped");
  });
  mpi_.Finalize();
}

}  // namespace tandem::parallel

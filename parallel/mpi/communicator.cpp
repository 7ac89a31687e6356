#include "parallel/mpi/communicator.h"

#include <chrono>
#include <cstdlib>
#include <exception>
#include <string_view>
#include <thread>

#include "parallel/abort_message.h"
#include "parallel/deadline.h"
#include "parallel/timeout_report.h"

namespace tandem::parallel {

namespace {

constexpr double kServeEvery = 0.01;  // seconds between polls for questions
constexpr double kRollCall = 2;       // seconds for other hosts to answer
constexpr double kEnd = 2.5;          // seconds from a failure to the end of the process
constexpr double kLauncher = 20;      // seconds for mpirun to end the ranks and itself
constexpr double kTelling = 1;        // seconds for one rank to print the reason

}  // namespace

MpiCommunicator::MpiCommunicator(const MpiLibrary& mpi, const Launch& launch,
                                 const CommunicatorOptions& options)
    : Communicator(launch.rank, launch.size),
      mpi_(mpi),
      options_(options),
      exceptions_(std::uncaught_exceptions()),
      board_(launch.rank, launch.size, options.shared_memory ? launch.session_folder : std::string()),
      handshake_(mpi, board_),
      call_watch_(options.deadline_s, [this, deadline_s = options.deadline_s] {
        const RankStatus own = board_.own();
        end_all(absence_in(own.call, own.begun, deadline_s).what());
      }) {
  start(launch);
  try {
    find_hosts(launch);
    if (options_.host_sums) open_host_sums();
  } catch (const RankError& error) {
    abort(error.what());  // a stopped rank does not notice another end
  }
}

void MpiCommunicator::start(const Launch& launch) {
  int initialised = 0;
  mpi_.Initialized(&initialised);
  ensure(!initialised, "mpi", "a communicator can be opened only once per process");
  Operation operation = begin(Call::start);
  int given = 0;
  {
    const ExitWatch watch(options_.deadline_s, 1, [this, number = operation.number] {
      end_all(absence_in(Call::start, number, options_.deadline_s).what());
    });
    check(mpi_, mpi_.Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &given), "MPI_Init_thread");
  }
  check(mpi_, mpi_.Comm_set_errhandler(mpi_.world, mpi_.errors_return), "MPI_Comm_set_errhandler");
  int mpi_rank = 0, mpi_size = 0;
  check(mpi_, mpi_.Comm_rank(mpi_.world, &mpi_rank), "MPI_Comm_rank");
  check(mpi_, mpi_.Comm_size(mpi_.world, &mpi_size), "MPI_Comm_size");
  if (mpi_rank != launch.rank || mpi_size != launch.size)
    throw VendorError("mpi",
                      fmt::format("mpirun says rank {} of {}, the library says {} of {}: they belong to "
                                  "different installations of Open MPI",
                                  launch.rank, launch.size, mpi_rank, mpi_size));
  ensure(given >= MPI_THREAD_SERIALIZED, "mpi", "Open MPI was built without threads");
  test(operation);
}

void MpiCommunicator::wait(Operation& operation, double deadline_s) {
  Deadline patience(deadline_s);
  double served_s = 0;
  while (!test(operation)) {
    if (patience.over()) return give_up(operation, patience.waited_s());
    if (patience.waited_s() >= served_s + kServeEvery) {
      const CallWatch::Inside inside(call_watch_);
      handshake_.serve();
      served_s = patience.waited_s();
    }
    patience.pause();
  }
}

// Returns if the operation has finished after all.
void MpiCommunicator::give_up(Operation& operation, double waited_s) {
  // Steps from here to `abort` may block, too: on a disk, on threads.
  const std::string seen = absence_in(operation.call, operation.number, waited_s).what();
  end_ = std::make_unique<ExitWatch>(kRollCall + kEnd, 1, [this, seen] { end_all(seen); });
  const std::vector<RankStatus> arrivals = handshake_.call(kRollCall);
  if (test(operation)) {
    end_.reset();
    return;
  }
  const RankError error =
      absence(arrivals, {rank(), size(), operation.call, operation.number, waited_s}, hosts_);
  broken_ = error.what();
  throw RankError(error);
}

RankError MpiCommunicator::absence_in(Call call, std::uint64_t number, double waited_s) const {
  return absence(board_.read(), {rank(), size(), call, number, waited_s}, hosts_);
}

MpiCommunicator::Operation MpiCommunicator::begin(Call call) {
  if (!broken_.empty()) throw RankError(name_of(call), "the ranks are no longer connected: " + broken_, {});
  Operation operation{call, ++last_};
  open_.insert(last_);
  board_.begun(last_, call);
  board_.ended_below(*open_.begin());
  return operation;
}

void MpiCommunicator::end_elsewhere(std::uint64_t number) {
  open_.erase(number);
  board_.ended_below(open_.empty() ? last_ + 1 : *open_.begin());
}

bool MpiCommunicator::test(Operation& operation) {
  int ended = 0;
  board_.looked();
  const CallWatch::Inside inside(call_watch_);
  if (host_sums_) host_sums_->advance();
  try {
    // Other ranks may need MPI's progress here while this one waits outside of MPI.
    if (operation.ticket > 0 && open_.size() > 1) handshake_.serve();
    check(mpi_,
          mpi_.Testall(static_cast<int>(operation.requests.size()), operation.requests.data(), &ended,
                       MPI_STATUSES_IGNORE),
          name_of(operation.call));
  } catch (const VendorError& error) {
    broken_ = error.what();
    throw;
  }
  if (!ended || (operation.ticket > 0 && !host_sums_->ended(operation.ticket))) return false;
  end_elsewhere(operation.number);
  return true;
}

void MpiCommunicator::add(Operation& operation, std::string_view what,
                          const std::function<int(MPI_Request*)>& post) {
  const CallWatch::Inside inside(call_watch_);
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
  return fmt::format("{}, {} rank{} on {} host{}{}", version.substr(0, version.find(',')), size(),
                     size() == 1 ? "" : "s", host_count_, host_count_ == 1 ? "" : "s",
                     host_sums_ ? ", sums in shared memory" : "");
}

void MpiCommunicator::abort(std::string_view message, int exit_code) {
  ensure(exit_code != 0, "abort", "exit code 0 would mean success");
  const ExitWatch watch(kEnd, exit_code, [this, message] { end_all(message); });
  tell(message);
  // mpirun ends the others when one ends without MPI_Finalize. MPI_Abort is a second faster, but mpirun of
  // Open MPI 4.1 misreads its result one time in ten.
  std::_Exit(exit_code);
}

// Only one of several ranks of a host prints. The others wait for it, because mpirun ends all once one has
// ended, and drops their later output.
void MpiCommunicator::tell(std::string_view message) {
  if (board_.first_to_abort()) {
    write_abort_message(words_of_rank(rank(), size(), message));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // time for mpirun to read it
    board_.kill_stopped();
    end_launcher_after(kLauncher);
    board_.has_told();
  } else {
    for (Deadline patience(kTelling); !board_.is_told() && !patience.over();) patience.pause();
  }
}

std::uint64_t MpiCommunicator::begin_elsewhere() { return begin(Call::all_reduce).number; }

void MpiCommunicator::look() {
  board_.looked();
  handshake_.serve();
}

RankError MpiCommunicator::absence_elsewhere(std::uint64_t number, double waited_s) {
  return absence(handshake_.call(kRollCall), {rank(), size(), Call::all_reduce, number, waited_s}, hosts_);
}

// Last resort when neither MPI nor mpirun ends the ranks.
void MpiCommunicator::end_all(std::string_view message) {
  tell(message);
  board_.kill_others();
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
  begin(Call::closing);
  const ExitWatch watch(options_.deadline_s, 1,
                        [this] { end_all(absence_in(Call::closing, last_, options_.deadline_s).what()); });
  mpi_.Finalize();
  board_.ended_below(last_ + 1);
}

}  // namespace tandem::parallel

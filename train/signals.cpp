#include "train/signals.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <string>

#include "core/exit_codes.h"

namespace tandem::train {

namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGALRM};
constexpr char kStepHangs[] =
    "\ntandem: the current step does not end; the process stops now, and unsaved progress is lost\n";
volatile std::sig_atomic_t asked_times = 0;
volatile std::sig_atomic_t timeout_s = 0;  // timeout in seconds from the first signal
char note[1024];                           // message with line breaks, for the handler
std::size_t note_length = 0;
double last_question = 0.0;
struct sigaction outer[std::size(kSignals)];

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void on_signal(int signal) {
  if (signal == SIGALRM) {
    [[maybe_unused]] const auto written = write(STDERR_FILENO, kStepHangs, sizeof kStepHangs - 1);
    _exit(kExitStoppedAtOnce);
  }
  asked_times = asked_times + 1;
  if (asked_times > 1) _exit(kExitStoppedAtOnce);
  alarm(static_cast<unsigned>(timeout_s));
  if (note_length == 0) return;
  [[maybe_unused]] const auto written = write(STDERR_FILENO, note, note_length);
}

}  // namespace

StopRequest::StopRequest(std::string_view message, int timeout_seconds) {
  asked_times = 0;
  timeout_s = timeout_seconds;
  last_question = now_s();
  constexpr std::size_t kLongest = 1000;
  const std::string line = message.empty() ? "" : "\n" + std::string(message.substr(0, kLongest)) + "\n";
  note_length = line.copy(note, sizeof note);
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &action, &outer[i]);
}

StopRequest::~StopRequest() {
  alarm(0);
  for (std::size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &outer[i], nullptr);
}

bool StopRequest::asked() const {
  constexpr double kPauses = 10.0, kLongest = 24 * 3600.0;
  if (asked_times > 0) {
    alarm(0);  // the program handles it from here
    return true;
  }
  const double now = now_s(), pause = std::min(kPauses * (now - last_question), kLongest);
  last_question = now;
  if (pause > static_cast<double>(timeout_s)) timeout_s = static_cast<int>(std::ceil(pause));
  return false;
}

}  // namespace tandem::train

#include "train/signals.h"

#include <unistd.h>

#include <csignal>

namespace tandem::train {

namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM};
volatile std::sig_atomic_t asked_times = 0, tells = 1;
struct sigaction outer[2];

void on_signal(int) {
  asked_times = asked_times + 1;
  if (asked_times > 1) _exit(130);
  if (tells == 0) return;
  constexpr char note[] = "\nStopping after this step; once more stops now.\n";
  [[maybe_unused]] const auto written = write(STDERR_FILENO, note, sizeof note - 1);
}

}  // namespace

StopRequest::StopRequest(bool says_so) {
  asked_times = 0;
  tells = says_so ? 1 : 0;
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (int i = 0; i < 2; ++i) sigaction(kSignals[i], &action, &outer[i]);
}

StopRequest::~StopRequest() {
  for (int i = 0; i < 2; ++i) sigaction(kSignals[i], &outer[i], nullptr);
}

bool StopRequest::asked() const { return asked_times > 0; }

}  // namespace tandem::train

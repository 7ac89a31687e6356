#include "train/signals.h"

#include <unistd.h>

#include <csignal>
#include <string>

namespace tandem::train {

namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM};
volatile std::sig_atomic_t asked_times = 0;
char note[1024];  // with its line breaks, for the handler
std::size_t note_length = 0;
struct sigaction outer[2];

void on_signal(int) {
  asked_times = asked_times + 1;
  if (asked_times > 1) _exit(130);
  if (note_length == 0) return;
  [[maybe_unused]] const auto written = write(STDERR_FILENO, note, note_length);
}

}  // namespace

StopRequest::StopRequest(std::string_view heard) {
  asked_times = 0;
  constexpr std::size_t kLongest = 1000;
  const std::string line = heard.empty() ? "" : "\n" + std::string(heard.substr(0, kLongest)) + "\n";
  note_length = line.copy(note, sizeof note);
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

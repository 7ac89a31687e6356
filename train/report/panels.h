// The charts of a report.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "train/plot/svg.h"
#include "train/report/run_record.h"

namespace tandem::report {

struct Swatch {
  std::string name;
  std::string css;  // "f0": area of series 0; "alarm", "shade"
};

// The area of the colour of a line, dashed as the line where colours come round again.
std::string swatch_of(std::size_t colour);

// One chart with what the page says around it.
struct Panel {
  std::string title, unit;
  std::string svg;             // empty: only the note
  std::vector<Swatch> legend;  // empty where there is one line, or all panels share a legend
  std::string note;
};

// Exponents of gradients for the histogram, or the reason why there are none.
struct Exponents {
  std::string source;  // "weight gradients of step 1200", for the caption
  std::vector<plot::HistogramSeries> series;
  std::vector<std::string> facts;  // what FP16 does to them, a sentence each
  std::string missing;             // the reason; empty when there are series
};

// "Without a loss scale FP16 rounds 12 % of the non-zero values to zero. A scale of 2^8 keeps 99.9 % of
// them."
std::string flushed_text(std::int64_t flushed, double non_zero, std::optional<int> saving_scale);

// What runs recorded at their last evaluation; `missing` is set where none did.
Exponents recorded_exponents(const std::vector<RunRecord>& runs, const std::vector<std::string>& labels);

// Loss, metrics, learning rate, loss scale, throughput and norm of gradients; of several runs overlaid, run i
// in colour i with the name labels[i]. A panel without data is left out, or is a note where its absence says
// something.
std::vector<Panel> panels_of(const std::vector<RunRecord>& runs, const std::vector<std::string>& labels);

Panel exponents_panel(const Exponents& exponents);

// The split that a run was evaluated on while it went on: of most evaluations. "" without any.
std::string usual_split(const RunRecord& run);
// Whether values of a metric are shares, shown as percent.
bool is_share(const std::string& metric);

}  // namespace tandem::report

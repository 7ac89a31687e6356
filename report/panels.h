// Charts of a report.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "report/plot/svg.h"
#include "runs/run_record.h"

namespace tandem::report {

struct Swatch {
  std::string name;
  std::string css;  // "f0": area of series 0; "alarm", "shade"
};

// CSS classes of a line's colour; dashed if colours repeat.
std::string swatch_of(std::size_t colour);

// A chart with its caption.
struct Panel {
  std::string title, unit;
  std::string svg;             // empty: only the note
  std::vector<Swatch> legend;  // empty for a single line, or if all panels share a legend
  std::string note;
};

// Look of every chart: two fit side by side on a wide page, and text is legible on a narrow one.
inline constexpr plot::Look kLook{.width = 480.0,
                                  .height = 270.0,
                                  .left = 60.0,
                                  .right = 14.0,
                                  .top = 12.0,
                                  .bottom = 40.0,
                                  .x_labels = 5,
                                  .y_labels = 5,
                                  .page = true};

// Charts of loss, metrics, learning rate, loss scale, throughput and gradient norm; several runs are
// overlaid, run i in colour i with the name labels[i]. A panel without data is left out, or is a note if that
// is informative.
std::vector<Panel> panels_of(const std::vector<runs::RunRecord>& runs,
                             const std::vector<std::string>& labels);

// The split of most evaluations, on which a run was evaluated during training; "" without any.
std::string usual_split(const runs::RunRecord& run);

}  // namespace tandem::report

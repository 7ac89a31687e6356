// The charts of a report.
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

// The area of the colour of a line, dashed as the line where colours come round again.
std::string swatch_of(std::size_t colour);

// One chart with what the page says around it.
struct Panel {
  std::string title, unit;
  std::string svg;             // empty: only the note
  std::vector<Swatch> legend;  // empty where there is one line, or all panels share a legend
  std::string note;
};

// Of every chart of a report: two lie side by side on a wide page, and text is legible on a narrow one.
inline constexpr plot::Look kLook{.width = 480.0,
                                  .height = 270.0,
                                  .left = 60.0,
                                  .right = 14.0,
                                  .top = 12.0,
                                  .bottom = 40.0,
                                  .x_labels = 5,
                                  .y_labels = 5,
                                  .page = true};

// Loss, metrics, learning rate, loss scale, throughput and norm of gradients; of several runs overlaid, run i
// in colour i with the name labels[i]. A panel without data is left out, or is a note where its absence says
// something.
std::vector<Panel> panels_of(const std::vector<runs::RunRecord>& runs,
                             const std::vector<std::string>& labels);

// The split that a run was evaluated on while it went on: of most evaluations. "" without any.
std::string usual_split(const runs::RunRecord& run);

}  // namespace tandem::report

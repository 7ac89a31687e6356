#include "report/html.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/build_info.h"
#include "core/error.h"
#include "files/base64.h"
#include "files/input.h"
#include "files/json_text.h"
#include "report/breakdown.h"
#include "report/facts.h"
#include "report/style.h"

namespace tandem::report {

namespace {

using plot::escaped;

std::string legend_html(const std::vector<Swatch>& legend) {
  if (legend.empty()) return "";
  std::string html = "<ul class=\"legend\">";
  for (const Swatch& swatch : legend) {
    const bool tall = swatch.css == "shade";
    html += fmt::format("<li><i class=\"{}{}\"></i>{}</li>", swatch.css, tall ? " tall" : "",
                        escaped(plot::raised(swatch.name)));
  }
  return html + "</ul>";
}

std::string figure(const Panel& panel, bool wide) {
  std::string html =
      fmt::format("<figure{}><figcaption><b>{}</b>", wide ? " class=\"wide\"" : "", escaped(panel.title));
  if (!panel.unit.empty()) html += fmt::format("<span>{}</span>", escaped(panel.unit));
  html += fmt::format("{}</figcaption>\n{}", legend_html(panel.legend), panel.svg);
  if (!panel.note.empty())
    html += fmt::format("<p class=\"note\">{}</p>\n", escaped(plot::raised(panel.note)));
  return html + "</figure>\n";
}

std::string badge(const runs::RunRecord& run) {
  std::string status = run.status();
  const std::string css = status == "not ended" ? "not-ended" : status;
  if (css == "not-ended") status = "not ended: running, or killed";
  return fmt::format("<span class=\"badge {}\">{}</span>", escaped(css), escaped(status));
}

std::string notes_html(const std::vector<std::string>& notes) {
  if (notes.empty()) return "";
  std::string html = "<div class=\"notes\">";
  for (const std::string& note : notes) html += fmt::format("<p>{}</p>", escaped(note));
  return html + "</div>\n";
}

std::string tiles_html(const runs::RunRecord& run) {
  std::string html = "<dl class=\"tiles\">";
  for (const Tile& tile : tiles_of(run))
    html += fmt::format("<div><dt>{}</dt><dd>{}<small>{}</small></dd></div>\n", escaped(tile.name),
                        escaped(tile.value), escaped(tile.more));
  return html + "</dl>\n";
}

std::string facts_html(const std::string& title, const Facts& facts) {
  if (facts.empty()) return "";
  std::string html = fmt::format("<section><h2>{}</h2><dl>", escaped(title));
  for (const auto& [name, value] : facts)
    html += fmt::format("<dt>{}</dt><dd>{}</dd>\n", escaped(name), escaped(value));
  return html + "</dl></section>\n";
}

// `swatches`: each row is a run and gets its colour.
std::string table_html(const std::vector<std::vector<std::string>>& rows, bool swatches) {
  std::string html = "<div class=\"scroll\"><table>";
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const char* cell = r == 0 ? "th" : "td";
    html += "<tr>";
    for (std::size_t c = 0; c < rows[r].size(); ++c) {
      const std::string swatch =
          swatches && r > 0 && c == 0 ? fmt::format("<i class=\"{}\"></i>", swatch_of(r - 1)) : "";
      html += fmt::format("<{0}>{1}{2}</{0}>", cell, swatch, escaped(rows[r][c]));
    }
    html += "</tr>\n";
  }
  return html + "</table></div>\n";
}

std::string charts_html(const std::vector<runs::RunRecord>& runs, const std::vector<std::string>& labels,
                        const Exponents& exponents) {
  std::string html = "<div class=\"charts\">\n";
  std::vector<Panel> notes;
  std::size_t drawn = 0;
  for (const Panel& panel : panels_of(runs, labels)) {
    if (panel.svg.empty()) {
      notes.push_back(panel);
    } else {
      html += figure(panel, false);
      ++drawn;
    }
  }
  const Panel gradients = exponents_panel(exponents);
  if (gradients.svg.empty()) {
    notes.push_back(gradients);
  } else {
    html += figure(gradients, drawn % 2 == 0);  // fills both columns
  }
  html += "</div>\n";
  if (notes.empty()) return html;
  html += "<div class=\"note\">";
  for (const Panel& panel : notes)
    html += fmt::format("<p>{}: {}</p>", escaped(panel.title), escaped(panel.note));
  return html + "</div>\n";
}

// Pictures of evaluations: of each series the newest, and some from the start on.
std::string pictures_html(const runs::RunRecord& run) {
  constexpr std::size_t kShown = 4;
  std::map<std::string, std::vector<runs::PictureEvent>> series;
  for (const runs::PictureEvent& picture : run.pictures) series[picture.name].push_back(picture);
  std::string html;
  for (const auto& [name, all] : series) {
    const std::size_t shown = std::min(kShown, all.size());
    std::string figures;
    for (std::size_t i = 0; i < shown; ++i) {
      const runs::PictureEvent& picture =
          all[shown == 1 ? all.size() - 1 : i * (all.size() - 1) / (shown - 1)];
      const auto png = files::read_text_if_there((run.path / picture.file).string());
      if (!png) continue;
      figures += fmt::format(
          "<figure><figcaption><b>{}</b><span>after epoch {}</span></figcaption>\n"
          "<img src=\"data:image/png;base64,{}\" alt=\"{}\"></figure>\n",
          escaped(name), picture.epoch, files::base64(*png), escaped(picture.file));
    }
    html += figures;
  }
  return html.empty() ? "" : "<div class=\"charts pictures\">\n" + html + "</div>\n";
}

std::string breakdown_html(const runs::RunRecord& run) {
  const auto breakdown = breakdown_of(run);
  if (!breakdown) return "";
  std::string html = "<h2>Classes</h2>\n";
  if (const Panel panel = curves_panel(*breakdown); !panel.svg.empty())
    html += "<div class=\"charts\">\n" + figure(panel, true) + "</div>\n";
  return html + table_html(breakdown_rows(*breakdown), false);
}

std::string one_run(const runs::RunRecord& run, const Exponents& exponents) {
  const std::vector<runs::RunRecord> runs{run};
  std::string html = fmt::format("<header><h1>{} {}</h1><p class=\"lead\">{}</p></header>\n",
                                 escaped(run.name), badge(run), escaped(headline(run)));
  html += tiles_html(run) + notes_html(run.notes) + charts_html(runs, labels_of(runs), exponents) +
          pictures_html(run) + breakdown_html(run);
  html += "<h2>The run</h2><div class=\"facts\">" + facts_html("Configuration", config_facts(run)) +
          facts_html("Environment", environment_facts(run)) + "</div>\n";
  if (run.config.is_object())
    html += fmt::format("<details><summary>Full configuration</summary><pre>{}</pre></details>\n",
                        escaped(files::json_text(run.config, 2)));
  return html;
}

// Each note once, with the names of its runs.
std::vector<std::string> shared_notes(const std::vector<runs::RunRecord>& runs,
                                      const std::vector<std::string>& labels) {
  std::vector<std::pair<std::string, std::vector<std::string>>> found;
  for (std::size_t r = 0; r < runs.size(); ++r)
    for (const std::string& note : runs[r].notes) {
      auto at =
          std::find_if(found.begin(), found.end(), [&](const auto& entry) { return entry.first == note; });
      if (at == found.end()) at = found.insert(found.end(), {note, {}});
      at->second.push_back(labels[r]);
    }
  std::vector<std::string> notes;
  for (const auto& [note, names] : found)
    notes.push_back(fmt::format("{}: {}", fmt::join(names, ", "), note));
  return notes;
}

std::string several_runs(const std::vector<runs::RunRecord>& runs, const Exponents& exponents) {
  const std::vector<std::string> labels = labels_of(runs);
  std::vector<Swatch> legend;
  for (std::size_t r = 0; r < runs.size(); ++r) legend.push_back({labels[r], swatch_of(r)});
  std::string html =
      fmt::format("<header><h1>{} runs</h1><p class=\"lead\">{}</p></header>\n<h2>Comparison</h2>\n",
                  runs.size(), escaped(fmt::format("The first one, {}, is the baseline.", labels.front())));
  html += table_html(comparison(runs, labels), true) + notes_html(shared_notes(runs, labels));
  html += fmt::format("<div class=\"runs\">{}</div>\n", legend_html(legend));
  html += charts_html(runs, labels, exponents);
  if (const auto rows = differences(runs, labels); !rows.empty())
    html += "<h2>Differences between configurations</h2>\n" + table_html(rows, false);
  html += "<h2>The runs</h2><div class=\"facts\">";
  for (std::size_t r = 0; r < runs.size(); ++r) {
    Facts facts = config_facts(runs[r]);
    for (auto& fact : environment_facts(runs[r])) facts.push_back(std::move(fact));
    html += facts_html(labels[r], facts);
  }
  return html + "</div>\n";
}

}  // namespace

std::string page_of(const std::vector<runs::RunRecord>& runs, const Exponents& exponents) {
  require(!runs.empty(), "report", "no runs");
  const std::string title = runs.size() == 1 ? runs.front().name : fmt::format("{} runs", runs.size());
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{} – Tandem</title>\n<style>{}</style>\n</head>\n<body>\n<main>\n{}"
      "<footer>Written by tandem report, version {}, {}.</footer>\n</main>\n</body>\n</html>\n",
      escaped(title), kStyle,
      runs.size() == 1 ? one_run(runs.front(), exponents) : several_runs(runs, exponents), version(),
      runs::utc_now());
}

}  // namespace tandem::report

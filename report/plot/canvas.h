// Canvas: elements of charts in two looks.
#pragma once

#include <cstddef>
#include <string>

namespace tandem::plot {

// Sizes in SVG units. On a page (an HTML document around the charts), the page has title, legend and colours,
// and elements have classes: of series i "s<i>" for strokes and "f<i>" for areas (i < 7), others "axis",
// "grid", "alarm", "shade", "tick", "name", "line", "faint", "dot" and "hover".
struct Look {
  double width = 720.0, height = 400.0;
  double left = 70.0, right = 20.0, top = 44.0, bottom = 52.0;
  int x_labels = 8, y_labels = 6;
  bool page = false;

  double plot_right() const { return width - right; }
  double plot_bottom() const { return height - bottom; }
};

inline constexpr std::size_t kColours = 7;

// Replaces &, <, > and quotes for SVG and HTML.
std::string escaped(const std::string& text);

// "2^16" with a superscript exponent.
std::string raised(const std::string& text);

struct TextStyle {
  const char* anchor = "start";
  int size = 12;
  bool bold = false, vertical = false;
};

enum class Ink { axis, grid, alarm };

class Canvas {
 public:
  explicit Canvas(const Look& look_) : look(look_) {}

  std::string text(double x, double y, const std::string& content, TextStyle style = {}) const;
  // `more`: attributes outside of a page.
  std::string line(double x1, double y1, double x2, double y2, Ink ink, const char* more = "") const;
  std::string series_line(double x1, double y1, double x2, double y2, std::size_t series,
                          const char* more) const;
  std::string path(const std::string& points, std::size_t series, bool faint) const;
  std::string dot(double x, double y, std::size_t series) const;
  std::string bar(double x, double y, double width, double height, std::size_t series) const;
  std::string shade(double x, double y, double width, double height) const;
  // Shows `text` under the pointer.
  std::string hover(double x, double y, double width, double height, const std::string& text) const;
  std::string document(const std::string& title, const std::string& body, double height) const;

  const Look look;
};

}  // namespace tandem::plot

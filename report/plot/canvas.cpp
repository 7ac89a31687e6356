#include "report/plot/canvas.h"

#include <fmt/core.h>

#include <iterator>

namespace tandem::plot {

namespace {

// Distinguishable with any colour vision (Okabe and Ito 2008).
constexpr const char* kPalette[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                    "#e69f00", "#56b4e9", "#000000"};
static_assert(std::size(kPalette) == kColours);

const char* colour(std::size_t series) { return kPalette[series % kColours]; }

struct InkNames {
  const char *colour, *css;
};

InkNames names_of(Ink ink) {
  constexpr InkNames names[] = {{"#444", "axis"}, {"#ddd", "grid"}, {"#a33", "alarm"}};
  return names[static_cast<int>(ink)];
}

std::string rectangle(double x, double y, double width, double height, const std::string& paint) {
  return fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" {}/>\n", x, y, width,
                     height, paint);
}

std::string stroke(double x1, double y1, double x2, double y2, const std::string& paint) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x1, y1, x2, y2,
                     paint);
}

}  // namespace

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::string raised(const std::string& text) {
  static constexpr const char* kDigits[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string result;
  bool above = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i], next = i + 1 < text.size() ? text[i + 1] : ' ';
    const bool digit = c >= '0' && c <= '9';
    if (c == '^' && (next == '-' || (next >= '0' && next <= '9'))) {
      above = true;
    } else if (above && digit) {
      result += kDigits[c - '0'];
    } else if (above && c == '-' && text[i - 1] == '^') {
      result += "⁻";
    } else {
      above = false;
      result += c;
    }
  }
  return result;
}

std::string Canvas::text(double x, double y, const std::string& content, TextStyle style) const {
  const std::string turn =
      style.vertical ? fmt::format(" transform=\"rotate(-90 {:.1f} {:.1f})\"", x, y) : "";
  const std::string font =
      look.page ? fmt::format("class=\"{}\"", style.size < 12 ? "tick" : "name")
                : fmt::format("font-size=\"{}\"{}", style.size, style.bold ? " font-weight=\"bold\"" : "");
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" {}{}>{}</text>\n", x, y,
                     style.anchor, font, turn, escaped(look.page ? raised(content) : content));
}

std::string Canvas::line(double x1, double y1, double x2, double y2, Ink ink, const char* more) const {
  const InkNames names = names_of(ink);
  return stroke(x1, y1, x2, y2,
                look.page ? fmt::format("class=\"{}\"", names.css)
                          : fmt::format("stroke=\"{}\"{}", names.colour, more));
}

std::string Canvas::series_line(double x1, double y1, double x2, double y2, std::size_t series,
                                const char* more) const {
  return stroke(x1, y1, x2, y2,
                look.page ? fmt::format("class=\"line s{}\"", series % kColours)
                          : fmt::format("stroke=\"{}\"{}", colour(series), more));
}

std::string Canvas::path(const std::string& points, std::size_t series, bool faint) const {
  if (look.page)
    return fmt::format("<path d=\"{}\" class=\"line{}{} s{}\"/>\n", points, faint ? " faint" : "",
                       series >= kColours ? " dashed" : "", series % kColours);
  return fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.6\"{}/>\n", points,
                     colour(series), faint ? " opacity=\"0.3\"" : "");
}

std::string Canvas::dot(double x, double y, std::size_t series) const {
  return look.page ? fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.6\" class=\"dot f{}\"/>\n", x, y,
                                 series % kColours)
                   : fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.6\" fill=\"{}\"/>\n", x, y,
                                 colour(series));
}

std::string Canvas::bar(double x, double y, double width, double height, std::size_t series) const {
  return rectangle(x, y, width, height,
                   look.page ? fmt::format("class=\"f{}\"", series % kColours)
                             : fmt::format("fill=\"{}\"", colour(series)));
}

std::string Canvas::shade(double x, double y, double width, double height) const {
  return rectangle(x, y, width, height, look.page ? "class=\"shade\"" : "fill=\"#f3dede\"");
}

std::string Canvas::hover(double x, double y, double width, double height, const std::string& text) const {
  return fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" class=\"hover\" "
      "fill-opacity=\"0\"><title>{}</title></rect>\n",
      x, y, width, height, escaped(text));
}

std::string Canvas::document(const std::string& title, const std::string& body, double height) const {
  if (look.page)
    return fmt::format(
        "<svg class=\"chart\" viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-label=\"{}\">\n{}</svg>\n",
        look.width, height, escaped(title), body);
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\" "
      "font-family=\"sans-serif\" fill=\"#222\">\n<rect width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "fill=\"#fff\"/>\n{2}</svg>\n",
      look.width, height, body);
}

}  // namespace tandem::plot

#include "launcher/views/chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>

#include "launcher/views/text.h"

namespace dlaunch::launcher::views {
namespace {

std::string number(double value) { return format("%.4g", value); }

/// What the axes span; never empty in either direction.
struct Box {
  double x0, x1, y0, y1;

  /// 0 to 1 from left to right and from bottom to top.
  [[nodiscard]] Point inside(const Point& point) const {
    return {(point.x - x0) / (x1 - x0), (point.y - y0) / (y1 - y0)};
  }
};

bool is_drawable(const Point& point) { return std::isfinite(point.x) && std::isfinite(point.y); }

std::optional<Box> box_of(const Chart& chart) {
  std::optional<Box> box;
  for (const auto& curve : chart.curves) {
    for (const auto& point : curve.points) {
      if (!is_drawable(point)) continue;
      if (!box) box = Box{point.x, point.x, point.y, point.y};
      box->x0 = std::min(box->x0, point.x);
      box->x1 = std::max(box->x1, point.x);
      box->y0 = std::min(box->y0, point.y);
      box->y1 = std::max(box->y1, point.y);
    }
  }
  if (!box) return box;
  if (box->x1 <= box->x0) box->x1 = box->x0 + 1;
  const double least = std::max(std::abs(box->y1) * 1e-3, 1e-9);
  if (box->y1 - box->y0 < least) {
    box->y0 -= least;
    box->y1 += least;
  }
  return box;
}

// ---- text

constexpr std::size_t kDotsAcross = 2, kDotsDown = 4;  // of a Braille cell

/// Cells of a terminal: dots of a line, and marks that take a whole cell.
class Canvas {
 public:
  Canvas(std::size_t width, std::size_t height)
      : width_(width), height_(height), dots_(width * height), marks_(width * height) {}

  void draw_line(Point from, Point to) {
    const auto a = dot_of(from), b = dot_of(to);
    const auto steps = static_cast<int>(std::max({std::abs(b.x - a.x), std::abs(b.y - a.y), 1.0}));
    for (int i = 0; i <= steps; ++i) {
      const double share = static_cast<double>(i) / steps;
      set_dot(a.x + (b.x - a.x) * share, a.y + (b.y - a.y) * share);
    }
  }
  void mark(Point at) {
    const auto dot = dot_of(at);
    marks_[cell(static_cast<std::size_t>(dot.x), static_cast<std::size_t>(dot.y))] = true;
  }
  [[nodiscard]] std::string row(std::size_t y) const {
    std::string text;
    for (std::size_t x = 0; x < width_; ++x) {
      text += marks_[y * width_ + x] ? "o" : braille(dots_[y * width_ + x]);
    }
    return text;
  }

 private:
  /// Dots from the upper left corner.
  [[nodiscard]] Point dot_of(Point inside) const {
    const auto across = static_cast<double>(width_ * kDotsAcross - 1);
    const auto down = static_cast<double>(height_ * kDotsDown - 1);
    return {std::round(inside.x * across), std::round((1 - inside.y) * down)};
  }
  [[nodiscard]] std::size_t cell(std::size_t x, std::size_t y) const {
    return y / kDotsDown * width_ + x / kDotsAcross;
  }
  void set_dot(double at_x, double at_y) {
    // Unicode numbers the eight dots by column, and the lowest row afterwards.
    static constexpr std::array<std::array<std::uint8_t, 2>, kDotsDown> kBits = {
        {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}}};
    const auto x = static_cast<std::size_t>(std::lround(at_x));
    const auto y = static_cast<std::size_t>(std::lround(at_y));
    auto& dots = dots_[cell(x, y)];
    dots = static_cast<std::uint8_t>(dots | kBits.at(y % kDotsDown).at(x % kDotsAcross));
  }
  /// U+2800 and the dots, as UTF-8.
  static std::string braille(std::uint8_t dots) {
    return {'\xe2', static_cast<char>(0xa0 | (dots >> 6)), static_cast<char>(0x80 | (dots & 0x3f))};
  }

  std::size_t width_, height_;
  std::vector<std::uint8_t> dots_;
  std::vector<bool> marks_;
};

void draw(const Chart& chart, const Box& box, Canvas& canvas) {
  for (std::size_t i = 0; i < chart.curves.size(); ++i) {
    std::optional<Point> before;
    for (const auto& point : chart.curves[i].points) {
      if (!is_drawable(point)) continue;
      const auto inside = box.inside(point);
      if (i > 0) {
        canvas.mark(inside);
      } else {
        canvas.draw_line(before.value_or(inside), inside);
      }
      before = inside;
    }
  }
}

/// "loss (o validation loss)"
std::string heading(const Chart& chart) {
  auto text = chart.title;
  for (std::size_t i = 1; i < chart.curves.size(); ++i) {
    if (!chart.curves[i].points.empty()) text += " (o " + chart.curves[i].name + ")";
  }
  return text;
}

std::string padded(const std::string& text, std::size_t width) {
  return std::string(width - std::min(width, text.size()), ' ') + text;
}

// ---- SVG

constexpr double kPlotWidth = 720, kPlotHeight = 240, kLeft = 80, kTop = 40, kBottom = 40;
constexpr int kTicks = 4;

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    safe += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  }
  return safe;
}

std::string label(double x, double y, const char* anchor, const std::string& text) {
  return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" text-anchor=\"" + anchor + "\">" +
         escaped(text) + "</text>\n";
}

std::string svg_axes(const Chart& chart, const Box& box, double top) {
  std::string text = label(kLeft, top - 12, "start", chart.title);
  for (int i = 0; i <= kTicks; ++i) {
    const double share = static_cast<double>(i) / kTicks;
    const double y = top + kPlotHeight * (1 - share);
    const double x = kLeft + kPlotWidth * share;
    text += "<path class=\"grid\" d=\"M" + number(kLeft) + " " + number(y) + "h" +
            number(kPlotWidth) + "\"/>\n";
    text += label(kLeft - 8, y + 4, "end",
                  number(box.y0 + (box.y1 - box.y0) * share) +
                      (chart.y_unit.empty() ? "" : " " + chart.y_unit));
    text += label(x, top + kPlotHeight + 20, "middle",
                  number(box.x0 + (box.x1 - box.x0) * share) + " " + chart.x_unit);
  }
  return text;
}

std::string svg_curve(const Curve& curve, const Box& box, double top, bool line) {
  std::string text = line ? "<polyline points=\"" : "";
  for (const auto& point : curve.points) {
    if (!is_drawable(point)) continue;
    const auto inside = box.inside(point);
    const auto x = number(kLeft + kPlotWidth * inside.x);
    const auto y = number(top + kPlotHeight * (1 - inside.y));
    text += line ? x + "," + y + " " : "<circle cx=\"" + x + "\" cy=\"" + y + "\" r=\"3\"/>\n";
  }
  return line ? text + "\"/>\n" : text;
}

std::string svg_chart(const Chart& chart, double top) {
  const auto box = box_of(chart);
  if (!box) return label(kLeft, top, "start", chart.title + ": nothing is known yet");
  auto text = svg_axes(chart, *box, top);
  for (std::size_t i = 0; i < chart.curves.size(); ++i) {
    const auto& curve = chart.curves[i];
    text += svg_curve(curve, *box, top, i == 0);
    if (i > 0 && !curve.points.empty()) {
      text += label(kLeft + kPlotWidth, top - 12, "end", "points: " + curve.name);
    }
  }
  return text;
}

}  // namespace

std::string text_chart(const Chart& chart, std::size_t width, std::size_t height) {
  const auto box = box_of(chart);
  if (!box) return heading(chart) + ": nothing is known yet\n";
  Canvas canvas(width, height);
  draw(chart, *box, canvas);
  const auto unit = chart.y_unit.empty() ? "" : " " + chart.y_unit;
  const auto high = number(box->y1) + unit, low = number(box->y0) + unit;
  const auto margin = std::max(high.size(), low.size());
  std::string text = heading(chart) + "\n";
  for (std::size_t y = 0; y < height; ++y) {
    const auto side = y == 0 ? high : y + 1 == height ? low : "";
    text += padded(side, margin) + " │" + canvas.row(y) + "\n";
  }
  const auto left = number(box->x0), right = number(box->x1) + " " + chart.x_unit;
  text += std::string(margin + 2, ' ') + left +
          padded(" " + right, width - std::min(width, left.size())) + "\n";
  return text;
}

std::string svg_page(const std::vector<Chart>& charts) {
  constexpr double kRow = kTop + kPlotHeight + kBottom;
  const auto width = number(kLeft + kPlotWidth + 40);
  const auto height = number(kRow * static_cast<double>(charts.size()));
  std::string text = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + width + "\" height=\"" +
                     height + "\" viewBox=\"0 0 " + width + " " + height +
                     "\">\n<style>text{font:12px sans-serif;fill:#222}"
                     ".grid{stroke:#ddd;fill:none}polyline{stroke:#1660a8;stroke-width:1.5;"
                     "fill:none}circle{fill:#c33}</style>\n<rect width=\"" +
                     width + "\" height=\"" + height + "\" fill=\"#fff\"/>\n";
  for (std::size_t i = 0; i < charts.size(); ++i) {
    text += svg_chart(charts[i], kTop + kRow * static_cast<double>(i));
  }
  return text + "</svg>\n";
}

}  // namespace dlaunch::launcher::views

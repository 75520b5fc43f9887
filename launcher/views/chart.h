// Curves over time, as text for a terminal and as SVG for a file.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace dlaunch::launcher::views {

struct Point {
  double x = 0;
  double y = 0;
};
struct Curve {
  std::string name;
  std::vector<Point> points;  ///< by rising x
};
/// The first curve is a line; the others are marks upon it.
struct Chart {
  std::string title;
  std::string x_unit;  ///< "h"
  std::string y_unit;  ///< may be empty
  std::vector<Curve> curves;
};

/// `width` × `height` cells of Braille dots, with the ends of both axes written beside them. A
/// chart without points says so in a line.
[[nodiscard]] std::string text_chart(const Chart& chart, std::size_t width, std::size_t height);

/// One file with all charts, one below the other; it refers to nothing outside.
[[nodiscard]] std::string svg_page(const std::vector<Chart>& charts);

}  // namespace dlaunch::launcher::views

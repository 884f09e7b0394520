// Pieces of HTML. What comes from files passes through escaped(); the functions here do it
// themselves for everything called `text`, and take finished HTML where they say so.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shardlm::report {

/// For text and for attributes in double quotes. Control characters, bytes that are no UTF-8 and
/// marks that change the direction of writing become U+FFFD, so that a name cannot pose as another.
std::string escaped(std::string_view text);

/// For the inside of <script type="application/json">: no '<', so nothing can end the element.
std::string script_safe(std::string_view json);

std::string paragraph(std::string_view css_class, std::string_view html);
std::string badge(std::string_view kind, std::string_view text);  ///< kind: "warn", "good", "plain"

/// A table in a box that scrolls sideways by itself.
class Table {
 public:
  /// The first `left` columns are text, and one that is called "doubts"; the rest numbers, on the
  /// right.
  Table(std::string caption, std::vector<std::string> heads, std::size_t left = 1);
  void row(std::vector<std::string> texts, std::string_view css_class = {});
  /// The last cell is finished HTML.
  void row_html(std::vector<std::string> texts, std::string html);
  bool empty() const { return rows_.empty(); }
  std::string html() const;
  std::string details(
      std::string_view summary = "Data table") const;  ///< folded away; empty of no rows

 private:
  bool words(std::size_t column) const;
  std::string cells(const std::vector<std::string>& texts) const;
  std::string caption_;
  std::vector<std::string> heads_;
  std::size_t left_;
  std::string rows_;
};

/// A figure: what it shows, what it says, the picture, how to read it, the numbers.
struct Figure {
  std::string id;
  std::string title = {};                ///< text
  std::string reading = {};              ///< HTML: the sentence that is computed from the data
  std::vector<std::string> panels = {};  ///< HTML
  std::string legend = {};               ///< HTML, of all panels
  std::string caption = {};              ///< HTML: n, intervals, base case
  std::string tables = {};               ///< HTML
  std::string html() const;
};

}  // namespace shardlm::report

#include "study/report/html.h"

#include <fmt/format.h>

#include <cstdint>
#include <utility>

#include "base/error.h"

namespace shardlm::report {
namespace {

const char* const kReplacement = "\xEF\xBF\xBD";

// The bytes of the UTF-8 sequence at the start of `text`, and its code point; 0 if it is none.
std::pair<std::size_t, std::uint32_t> code_point(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return {1, first};
  const std::size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < size) return {0, 0};
  std::uint32_t code = first & (0xFFu >> (size + 1));
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {0, 0};
    code = code << 6 | (byte(i) & 0x3Fu);
  }
  const std::uint32_t least = size == 2 ? 0x80 : size == 3 ? 0x800 : 0x10000;
  if (code < least || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return {0, 0};
  return {size, code};
}

// What XML forbids, and what makes text look like other text.
bool unwanted(std::uint32_t c) {
  const bool control = (c < 0x20 && c != '\n' && c != '\t') || (c >= 0x7F && c < 0xA0);
  const bool direction =
      c == 0x200E || c == 0x200F || (c >= 0x202A && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
  return control || direction || c == 0xFFFE || c == 0xFFFF || c == 0xFEFF;
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const auto [size, code] = code_point(text);
    if (size == 0 || unwanted(code)) {
      out += kReplacement;
    } else if (code == '&') {
      out += "&amp;";
    } else if (code == '<') {
      out += "&lt;";
    } else if (code == '>') {
      out += "&gt;";
    } else if (code == '"') {
      out += "&quot;";
    } else if (code == '\'') {
      out += "&#39;";
    } else {
      out += text.substr(0, size);
    }
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return out;
}

std::string script_safe(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

std::string paragraph(std::string_view css_class, std::string_view html) {
  return fmt::format("<p class=\"{}\">{}</p>\n", css_class, html);
}

std::string badge(std::string_view kind, std::string_view text) {
  return fmt::format("<span class=\"badge {}\">{}</span>", kind, escaped(text));
}

Table::Table(std::string caption, std::vector<std::string> heads, std::size_t left)
    : caption_(std::move(caption)), heads_(std::move(heads)), left_(left) {}

bool Table::words(std::size_t column) const { return column < left_ || heads_[column] == "doubts"; }

std::string Table::cells(const std::vector<std::string>& texts) const {
  std::string html;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::string text = escaped(texts[i]);
    if (i == 0) {
      html += "<th scope=\"row\">" + text + "</th>";
    } else {
      html += (words(i) ? "<td>" : "<td class=\"n\">") + text + "</td>";
    }
  }
  return html;
}

void Table::row(std::vector<std::string> texts, std::string_view css_class) {
  check(texts.size() == heads_.size(), "a row of a report's table has a cell for each column");
  rows_ += css_class.empty() ? "<tr>" : fmt::format("<tr class=\"{}\">", css_class);
  rows_ += cells(texts) + "</tr>\n";
}

void Table::row_html(std::vector<std::string> texts, std::string html) {
  check(texts.size() + 1 == heads_.size(), "a row of a report's table has a cell for each column");
  rows_ += "<tr>" + cells(texts) + "<td>" + html + "</td></tr>\n";
}

std::string Table::html() const {
  std::string head;
  for (std::size_t i = 0; i < heads_.size(); ++i) {
    head += fmt::format("<th scope=\"col\"{}>{}</th>", words(i) ? "" : " class=\"n\"",
                        escaped(heads_[i]));
  }
  return fmt::format(
      "<div class=\"scroll\" role=\"region\" aria-label=\"{0}\" tabindex=\"0\"><table>\n"
      "<caption>{0}</caption>\n<thead><tr>{1}</tr></thead>\n<tbody>\n{2}</tbody></table></div>\n",
      escaped(caption_), head, rows_);
}

std::string Table::details(std::string_view summary) const {
  if (empty()) return {};
  return fmt::format("<details class=\"data\"><summary>{}</summary>\n{}</details>\n",
                     escaped(summary), html());
}

std::string Figure::html() const {
  std::string out = fmt::format("<figure id=\"{}\">\n<h3>{}</h3>\n", id, escaped(title));
  if (!reading.empty()) out += paragraph("reading", reading);
  out += legend;
  const std::string said = caption.empty() ? "" : "<figcaption>" + caption + "</figcaption>\n";
  std::string below = said + tables;
  if (panels.empty()) return out + below + "</figure>\n";
  out += "<div class=\"panels\">\n";
  for (const std::string& panel : panels) out += "<div class=\"panel\">\n" + panel + "</div>\n";
  // Beside a single picture there is room for what is said of it.
  if (panels.size() % 2 == 1) {
    const bool narrow = tables.empty() || tables.starts_with("<details");
    out += "<div class=\"beside\">\n" + (narrow ? below : said) + "</div>\n";
    below = narrow ? "" : tables;
  }
  return out + "</div>\n" + below + "</figure>\n";
}

}  // namespace shardlm::report

#pragma once
#include <span>
#include <string>
#include <string_view>

namespace dtrain {

/// A colour by its name in the style sheet, on light pages and on dark ones. Lines, fills and text have it alike: it
/// has a contrast of at least 4.5 to the page, the ideal line 3.
struct Ink {
  std::string_view name;
  std::string_view light;
  std::string_view dark;
};

/// For things that differ in kind: seven hues after Okabe and Ito (2008), their lightness chosen so that people with
/// any colour vision tell any two apart: they differ by at least 15 in CIELAB as each dichromat sees them.
std::span<const Ink> kind_inks();
/// For things that have an order, such as numbers of ranks: from dark blue to ochre, lighter with every step.
std::span<const Ink> order_inks();
/// Of the page: "page", "panel", "text", "muted", "rule", "ideal", "link".
std::span<const Ink> page_inks();

/// The name of the i-th of kind_inks(), which begin again after the last.
std::string kind_ink(size_t i);
/// The name of the i-th of n in order, spread over order_inks().
std::string order_ink(size_t i, size_t n);
/// For the ideal line and what stands for no series.
inline std::string ideal_ink() { return "ideal"; }

/// The style sheet's lines for all inks and for the classes that charts use. Light; dark where the reader's screen asks
/// for it, never on paper.
std::string drawing_style();

}  // namespace dtrain

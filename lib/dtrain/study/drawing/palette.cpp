#include "dtrain/study/drawing/palette.hpp"

#include <algorithm>
#include <array>

namespace dtrain {
namespace {

constexpr std::array<Ink, 7> kKinds = {{{"k0", "#0072b2", "#56b4e9"},
                                        {"k1", "#8a3208", "#e56333"},
                                        {"k2", "#0f6b4c", "#38e49f"},
                                        {"k3", "#5c0a52", "#f5dbef"},
                                        {"k4", "#906f09", "#e2c328"},
                                        {"k5", "#5b7383", "#76849b"},
                                        {"k6", "#2e1313", "#c36664"}}};
constexpr std::array<Ink, 8> kOrder = {{{"o0", "#1b1464", "#9aa7ff"},
                                        {"o1", "#3d1b8f", "#b39dff"},
                                        {"o2", "#6a1b9a", "#cf97f5"},
                                        {"o3", "#951f87", "#e896d8"},
                                        {"o4", "#b52a62", "#f79db0"},
                                        {"o5", "#b9432f", "#ffab86"},
                                        {"o6", "#a65a00", "#ffc266"},
                                        {"o7", "#7d6a00", "#f2dd6e"}}};
constexpr std::array<Ink, 7> kPage = {{{"page", "#ffffff", "#14171b"},
                                       {"panel", "#f6f7f8", "#1d2126"},
                                       {"text", "#1b1f24", "#e8ebee"},
                                       {"muted", "#59636e", "#a3adb8"},
                                       {"rule", "#d5dade", "#363c43"},
                                       {"ideal", "#767f88", "#8a949e"},
                                       {"link", "#0a5ea8", "#7cc0ff"}}};

std::string variables(std::string_view Ink::*side) {
  std::string out;
  for (const std::span<const Ink> inks : {kind_inks(), order_inks(), page_inks()})
    for (const Ink& ink : inks) out += "--" + std::string(ink.name) + ":" + std::string(ink.*side) + ";";
  return out;
}

// Text stands in --text; what belongs to a series has its ink as --k.
constexpr std::string_view kClasses = R"(
svg.chart{display:block;width:100%;height:auto;overflow:visible;font-size:13px;fill:var(--text)}
.chart text{font-variant-numeric:tabular-nums}
.chart .m{fill:var(--muted)}
.chart .e{text-anchor:end}
.chart .c{text-anchor:middle}
.chart .g{stroke:var(--rule);stroke-width:1;fill:none}
.chart .n{stroke:var(--muted);stroke-width:1;stroke-dasharray:2 3;fill:none}
.chart .l{stroke:var(--k);stroke-width:2;fill:none;stroke-linejoin:round;stroke-linecap:round}
.chart .h{stroke-dasharray:6 4;stroke-linecap:butt}
.chart .w{stroke:var(--k);stroke-width:1.5;fill:none}
.chart .b{fill:var(--k);opacity:.25}
.chart .d{fill:var(--k);stroke:var(--page);stroke-width:1}
.chart .q{fill:var(--page);stroke:var(--k);stroke-width:2}
.chart .s{fill:var(--k);stroke:var(--page);stroke-width:.5}
.chart .t{fill:var(--k);paint-order:stroke;stroke:var(--page);stroke-width:4;stroke-linejoin:round}
.chart .t.ideal{fill:var(--muted)}
.chart .r{stroke:var(--k);stroke-width:.75;fill:none}
)";

}  // namespace

std::span<const Ink> kind_inks() { return kKinds; }
std::span<const Ink> order_inks() { return kOrder; }
std::span<const Ink> page_inks() { return kPage; }

std::string kind_ink(size_t i) { return std::string(kKinds[i % kKinds.size()].name); }

std::string order_ink(size_t i, size_t n) {
  const size_t last = kOrder.size() - 1;
  return std::string(kOrder[n < 2 ? 0 : std::min(last, (i * last + (n - 1) / 2) / (n - 1))].name);
}

std::string drawing_style() {
  std::string out = ":root{color-scheme:light dark;" + variables(&Ink::light) + "}\n";
  out += "@media screen and (prefers-color-scheme:dark){:root{" + variables(&Ink::dark) + "}}\n";
  for (const std::span<const Ink> inks : {kind_inks(), order_inks()})
    for (const Ink& ink : inks) out += "." + std::string(ink.name) + "{--k:var(--" + std::string(ink.name) + ")}";
  return out + ".ideal{--k:var(--ideal)}" + std::string(kClasses);
}

}  // namespace dtrain

#include "dtrain/train/replaced_samples.hpp"

#include <map>

#include "dtrain/base/error.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/dist/collectives.hpp"

namespace dtrain {

std::string tell_replaced(Communicator& comm, const std::string& sentence, int64_t replaced,
                          const std::vector<Replaced>& mine, size_t most) {
  std::string text;  // number, NUL, reason, NUL …
  for (const Replaced& one : mine) text += std::to_string(one.sample) + '\0' + one.reason + '\0';
  std::map<int64_t, std::string> reasons;
  for (const std::string& theirs : all_gather_text(comm, text)) {
    const std::vector<std::string> fields = split_text(theirs, '\0');
    for (size_t i = 0; i + 1 < fields.size(); i += 2) reasons[std::stoll(fields[i])] = fields[i + 1];
  }
  std::vector<std::string> lines;
  for (const auto& [sample, reason] : reasons) lines.push_back(reason);
  const int64_t before = replaced - static_cast<int64_t>(lines.size());
  if (lines.empty()) return sentence + "; all of them before this start";
  return with_list(sentence + ":", lines, most) +
         (before > 0 ? "\n  and " + with_commas(before) + " before this start" : "");
}

void require_few_replaced(Communicator& comm, int64_t replaced, int64_t max_bad, const std::vector<Replaced>& mine) {
  if (replaced <= max_bad) return;
  throw DataError(tell_replaced(comm,
                                count_of(replaced, "sample") +
                                    " of this epoch could not be decoded so far, more than data.loader.max_bad (" +
                                    with_commas(max_bad) + ") allows to be replaced (dtrain check lists all bad ones)",
                                replaced, mine));
}

}  // namespace dtrain

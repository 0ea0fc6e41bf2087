#include "dtrain/data/store/channel_files.hpp"

#include <unordered_set>

#include "dtrain/base/text.hpp"
#include "dtrain/data/store/paths.hpp"

namespace dtrain {

int64_t ChannelFiles::channel_of(const std::string& path) const {
  const std::string_view stem = without_ending(path);
  int64_t found = kNone;
  for (size_t i = 0; i < endings_.size(); ++i)
    if (base_name(stem).ends_with(endings_[i]) &&
        (found == kNone || endings_[i].size() > endings_[static_cast<size_t>(found)].size()))
      found = static_cast<int64_t>(i);
  return found;
}

std::string ChannelFiles::sibling(const std::string& path, size_t channel) const {
  const int64_t own = channel_of(path);
  if (own == kNone) return path;
  const std::string_view stem = without_ending(path);
  const std::string bare(stem.substr(0, stem.size() - endings_[static_cast<size_t>(own)].size()));
  return bare + endings_[channel] + path.substr(stem.size());
}

std::string ChannelFiles::text() const { return "[" + join(endings_, ", ") + "]"; }

ChannelList channel_list(const ChannelFiles& channels, const std::vector<std::string>& files) {
  ChannelList list;
  const std::unordered_set<std::string> there(files.begin(), files.end());
  for (const std::string& file : files) {
    const int64_t channel = channels.channel_of(file);
    if (channel == ChannelFiles::kNone) {
      list.others.push_back(file);
      continue;
    }
    if (const std::string first = channels.sibling(file, 0); channel != 0) {
      if (!there.contains(first)) list.missing.push_back(first + ", beside " + file);
      continue;
    }
    list.pictures.push_back(file);
    for (size_t i = 1; i < channels.count(); ++i)
      if (const std::string other = channels.sibling(file, i); !there.contains(other))
        list.missing.push_back(other + ", beside " + file);
  }
  return list;
}

}  // namespace dtrain

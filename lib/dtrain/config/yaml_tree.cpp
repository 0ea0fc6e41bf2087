#include "dtrain/config/yaml_tree.hpp"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "dtrain/base/text.hpp"

namespace dtrain {

std::string Place::text() const {
  if (source == nullptr) return "configuration";
  if (!source->positions || line == 0) return source->label;
  return source->label + ":" + std::to_string(line) + ":" + std::to_string(column);
}

std::string Place::origin() const {
  if (source == nullptr) return "default";
  return source->positions && line > 0 ? source->origin + ":" + std::to_string(line) : source->origin;
}

std::string YamlNode::what() const {
  constexpr size_t kShown = 60;
  switch (kind) {
    case Kind::null:
      return "nothing";
    case Kind::list:
      return "a list";
    case Kind::map:
      return "a group";
    case Kind::scalar:
      break;
  }
  if (text.size() <= kShown) return "'" + text + "'";
  size_t cut = kShown;
  while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80) --cut;  // never inside a character
  return "'" + text.substr(0, cut) + "…'";
}

namespace {

/// Thrown when it makes no sense to read on.
struct Stop {
  size_t offset;
  std::string sentence;
};

void require_text(std::string_view text) {
  if (text.size() > kYamlMaxBytes) throw Stop{0, "is larger than 1 MiB, more than any configuration needs"};
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8_length(text.substr(at));
    const auto c = static_cast<unsigned char>(text[at]);
    const bool utf16 = text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF");
    if (length == 0 && !utf16 && text.find('\0') != std::string_view::npos)
      throw Stop{at, "is not text; name a YAML file as the configuration"};
    if (length == 0) throw Stop{at, "is not UTF-8 text; save it as UTF-8"};
    if (c == 0x7F || (c < 0x20 && c != '\t' && c != '\n' && c != '\r'))
      throw Stop{at, "holds a control character; a configuration is UTF-8 text"};
    at += length;
  }
}

bool leading_zero(std::string_view text) {
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  return text.size() > 1 && text[0] == '0' &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// Builds the tree from yaml-cpp's events. Its own tree is never used: it keeps duplicate keys silently and a walker
/// over it would run forever on cyclic aliases.
class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(std::string_view text, const YamlSource& source, std::vector<Problem>& problems)
      : text_(text), source_(source), problems_(problems) {
    line_starts_.push_back(0);
    for (size_t i = 0; i < text.size(); ++i)
      if (text[i] == '\n') line_starts_.push_back(i + 1);
  }

  YamlNode take_root() { return std::move(root_); }

  size_t offset_of(const YAML::Mark& mark) const {
    if (mark.is_null() || mark.line < 0) return 0;
    const size_t line = std::min(static_cast<size_t>(mark.line), line_starts_.size() - 1);
    return std::min(line_starts_[line] + static_cast<size_t>(std::max(0, mark.column)), text_.size());
  }

  Place place_at(size_t offset) const {
    const auto next = std::upper_bound(line_starts_.begin(), line_starts_.end(), offset);
    const size_t start = *(next - 1);
    int column = 1;
    for (size_t i = start; i < offset && i < text_.size(); ++i)
      if ((static_cast<unsigned char>(text_[i]) & 0xC0) != 0x80) ++column;
    return {&source_, static_cast<int>(next - line_starts_.begin()), column};
  }

  bool tab_indents(size_t offset) const {
    for (size_t i = *(std::upper_bound(line_starts_.begin(), line_starts_.end(), offset) - 1); i < text_.size(); ++i) {
      if (text_[i] == '\t') return true;
      if (text_[i] != ' ') return false;
    }
    return false;
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) throw Stop{offset_of(mark), "a second document begins here; a configuration is one document"};
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { add(node_at(mark), anchor, mark); }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto known = anchors_.find(anchor);
    if (known == anchors_.end())
      throw Stop{offset_of(mark), "this alias is inside the value that it refers to: a cycle"};
    count(known->second.second, mark);
    YamlNode copy = known->second.first;
    copy.place = place_at(offset_of(mark));
    add(std::move(copy), 0, mark, known->second.second - 1);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    YamlNode node = node_at(mark);
    node.kind = YamlNode::Kind::scalar;
    node.text = value;
    if (tag == "!") {
      require_closed_quote(offset_of(mark));
    } else {
      refuse_tag(tag, node.place);
      const bool is_key = !stack_.empty() && stack_.back().node.kind == YamlNode::Kind::map && !stack_.back().has_key;
      if (!is_key && leading_zero(value))
        problems_.push_back(
            {node.place,
             "'" + value + "' has a leading zero; write the number without it, or quote it if it is a name"});
    }
    add(std::move(node), anchor, mark);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(YamlNode::Kind::list, mark, tag, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(YamlNode::Kind::map, mark, tag, anchor);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    YamlNode node;
    YAML::anchor_t anchor = 0;
    YAML::Mark mark;
    size_t nodes_before = 0;
    bool has_key = false;
    std::string key;
    Place key_place;
    std::map<std::string, Place> seen;
  };

  YamlNode node_at(const YAML::Mark& mark) const {
    YamlNode node;
    node.place = place_at(offset_of(mark));
    return node;
  }

  void refuse_tag(const std::string& tag, const Place& place) {
    if (!tag.empty() && tag != "?")
      problems_.push_back({place, "tags ('!…') are refused: the type follows from the key"});
  }

  // yaml-cpp takes the end of the file for the closing quote.
  void require_closed_quote(size_t at) {
    while (at < text_.size() && text_[at] == '&') {
      at = text_.find_first_of(" \t\r\n", at);
      at = at == std::string_view::npos ? text_.size() : text_.find_first_not_of(" \t\r\n", at);
    }
    if (at >= text_.size()) return;
    const char quote = text_[at];
    if (quote == '!') return refuse_tag("!", place_at(at));
    if (quote != '"' && quote != '\'') return;
    for (size_t i = at + 1; i < text_.size(); ++i) {
      if (quote == '"' && text_[i] == '\\') {
        ++i;
      } else if (text_[i] == quote) {
        if (quote == '"' || i + 1 >= text_.size() || text_[i + 1] != '\'') return;
        ++i;
      }
    }
    throw Stop{at, "this quote is not closed"};
  }

  void count(size_t nodes, const YAML::Mark& mark) {
    nodes_ += nodes;
    if (nodes_ > kYamlMaxNodes)
      throw Stop{offset_of(mark), "more than 100,000 values, aliases included, more than any configuration needs"};
  }

  void open(YamlNode::Kind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    if (static_cast<int>(stack_.size()) >= kYamlMaxDepth) throw Stop{offset_of(mark), "nested deeper than 32 levels"};
    Open level;
    level.node = node_at(mark);
    level.node.kind = kind;
    level.anchor = anchor;
    level.mark = mark;
    level.nodes_before = nodes_;
    refuse_tag(tag, level.node.place);
    stack_.push_back(std::move(level));
  }

  void close() {
    Open level = std::move(stack_.back());
    stack_.pop_back();
    add(std::move(level.node), level.anchor, level.mark, nodes_ - level.nodes_before);
  }

  /// `inner`: nodes below this one, counted already.
  void add(YamlNode node, YAML::anchor_t anchor, const YAML::Mark& mark, size_t inner = 0) {
    count(1, mark);
    if (anchor != 0) {
      count(inner + 1, mark);  // the copy kept for its aliases costs memory too
      anchors_[anchor] = {node, inner + 1};
    }
    if (stack_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& parent = stack_.back();
    if (parent.node.kind == YamlNode::Kind::list) {
      parent.node.items.push_back(std::move(node));
    } else if (!parent.has_key) {
      take_key(parent, node);
    } else {
      parent.has_key = false;
      if (node.kind == YamlNode::Kind::null) node.place = parent.key_place;  // null has no place of its own
      if (!parent.key.empty()) parent.node.entries.push_back({parent.key, parent.key_place, std::move(node)});
    }
  }

  // A key that is refused is left empty, and its value is then dropped.
  void take_key(Open& parent, const YamlNode& node) {
    parent.has_key = true;
    parent.key.clear();
    parent.key_place = node.place;
    if (node.kind != YamlNode::Kind::scalar || node.text.empty()) {
      problems_.push_back({node.place, "a key must be a word, not " + node.what()});
    } else if (node.text == "<<") {
      problems_.push_back(
          {node.place, "'<<' merges are refused; write the keys out, or use an alias for a whole value"});
    } else if (const auto [first, fresh] = parent.seen.emplace(node.text, node.place); !fresh) {
      problems_.push_back(
          {node.place, "duplicate key '" + node.text + "', set at " + first->second.text() + " already; keep one"});
    } else {
      parent.key = node.text;
    }
  }

  std::string_view text_;
  const YamlSource& source_;
  std::vector<Problem>& problems_;
  std::vector<size_t> line_starts_;
  std::vector<Open> stack_;
  std::map<YAML::anchor_t, std::pair<YamlNode, size_t>> anchors_;
  YamlNode root_;
  size_t nodes_ = 0;
  int documents_ = 0;
};

// The innermost `bracket` that is open at the end of the text, outside quotes and comments; if none, `otherwise`, where
// the parser noticed, often the last line.
size_t open_bracket(std::string_view text, char bracket, size_t otherwise) {
  const auto begins_word = [&](size_t i) {
    return i == 0 || std::string_view(" \t\r\n[{,:").find(text[i - 1]) != std::string_view::npos;
  };
  std::vector<size_t> open;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '#' && begins_word(i)) {
      i = std::min(text.find('\n', i), text.size());
    } else if ((c == '"' || c == '\'') && begins_word(i)) {
      for (++i; i < text.size() && text[i] != c; ++i)
        if (c == '"' && text[i] == '\\') ++i;
    } else if ((c == '[' || c == '{') && begins_word(i)) {
      open.push_back(i);
    } else if ((c == ']' || c == '}') && !open.empty()) {
      open.pop_back();
    }
  }
  for (; !open.empty(); open.pop_back())
    if (text[open.back()] == bracket) return open.back();
  return otherwise;
}

// ${NAME} without quotes in the line of `place`: in brackets and braces, where its own brace begins a group.
bool bare_variable(std::string_view text, size_t place) {
  const size_t before = text.rfind('\n', place);
  const std::string_view line = text.substr(before == std::string_view::npos ? 0 : before + 1);
  const size_t at = line.substr(0, line.find('\n')).find("${");
  return at != std::string_view::npos && (at == 0 || (line[at - 1] != '"' && line[at - 1] != '\''));
}

constexpr const char* kOpenList = "end of sequence flow not found";
constexpr const char* kOpenGroup = "end of map flow not found";

// `variable`: `${` follows.
std::string syntax_sentence(const YAML::Exception& error, bool tab, bool variable) {
  std::string sentence = "not valid YAML: ";
  if (tab) return sentence + "a tab in the indentation; YAML wants spaces";
  if (error.msg == "bad file") return sentence + "a bracket or brace is not closed";
  if (variable) return sentence + "inside brackets and braces a variable is written in quotes: \"${NAME}\"";
  if (error.msg == kOpenList) return sentence + "this '[' is not closed by ']'; comments begin with '#'";
  if (error.msg == kOpenGroup) return sentence + "this '{' is not closed by '}'; comments begin with '#'";
  if (error.msg == "illegal flow end") return sentence + "nothing open ends here; look at the brackets before it";
  if (error.msg == "illegal EOF in scalar") return sentence + "the quote before is not closed";
  if (error.msg == "illegal map value")
    return sentence + "a ':' is not allowed here; quote a text that contains ': ', and check the indentation";
  if (error.msg == "unknown token") return sentence + "this cannot begin a value; quote it if it is a text";
  return sentence + error.msg;
}

}  // namespace

std::optional<YamlNode> parse_yaml(std::string_view text, const YamlSource& source, std::vector<Problem>& problems) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  TreeBuilder builder(text.substr(0, kYamlMaxBytes), source, problems);
  try {
    require_text(text);
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) continue;
    return builder.take_root();
  } catch (const Stop& stop) {
    problems.push_back({builder.place_at(stop.offset), stop.sentence});
  } catch (const YAML::Exception& error) {
    const bool open = error.msg == kOpenList || error.msg == kOpenGroup;
    const size_t noticed = builder.offset_of(error.mark);
    const size_t offset = open ? open_bracket(text, error.msg == kOpenList ? '[' : '{', noticed) : noticed;
    const bool variable = open && bare_variable(text, offset);
    problems.push_back({builder.place_at(offset), syntax_sentence(error, builder.tab_indents(offset), variable)});
  }
  return std::nullopt;
}

}  // namespace dtrain

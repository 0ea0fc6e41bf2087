#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "dtrain/metrics/interval.hpp"

namespace dtrain {

/// What one group adds to a figure that is a part of a whole, 0 <= part <= whole: pictures judged right of all pictures
/// (accuracy), pixels in both of pixels in either (IoU), the sum of IoUs of the number of pictures.
struct GroupShare {
  double part = 0;
  double whole = 0;
};

/// `share` of each sample, summed over its group: an entry per group.
std::vector<GroupShare> shares_of(const Groups& groups, const std::function<GroupShare(size_t)>& share);

/// What the interval of a mean over classes is made of. Classes are added one after the other, so that memory does not
/// grow with their number.
class ShareSpread {
 public:
  /// Another class: an entry per group, as many for each class.
  void add(std::span<const GroupShare> groups);
  /// As share_confidence() of the classes that were added, of which there is one at least.
  Confidence confidence(double value, const std::string& noun, bool trials = false) const;

 private:
  struct Member {
    GroupShare all;    // over all classes
    double pull = 0;   // on the sum of the classes' figures
    double size = 0;   // its share of the wholes
    double share = 0;  // in the variance if its samples agreed
  };
  std::vector<Member> groups_;
  double whole_ = 0;
  double classes_ = 0;
};

/// Interval of a figure that is sum of parts / sum of wholes, or the mean of such ratios over `classes` (each an entry
/// per group): Wilson's, for as many independent trials as would vary as much as the groups do (Korn & Graubard 1998;
/// Franco et al. 2019), by Student's t (degrees_of()). `value` is the figure. Where fewer than kLeastGroups groups have
/// what speaks against 1, or against 0, samples of a group are taken to agree completely.
///
/// trials   parts and wholes are counts of trials: the interval is never narrower than Wilson's of all of them as if
///          they were independent, and where each group has one it is that
/// No interval, with the reason, with fewer than kLeastGroups groups, and for a figure that is no share.
Confidence share_confidence(double value, std::span<const std::vector<GroupShare>> classes, const std::string& noun,
                            bool trials = false);

}  // namespace dtrain

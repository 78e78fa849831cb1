// The README's table of settings is the table of settings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/settings.h"

namespace floe {
namespace {

TEST(Readme, ShowsEverySettingAsTheTableHasIt) {
  std::ifstream file(FLOE_README);
  std::stringstream text;
  text << file.rdbuf();
  size_t rows = 0;
  for (std::string line; std::getline(text, line);) rows += line.starts_with("| `FLOE_");
  EXPECT_EQ(rows, setting_table().size());
  for (const SettingInfo& setting : setting_table())
    EXPECT_THAT(text.str(), testing::HasSubstr(fmt::format(
                                "| `{}` | {} | {} | {} |\n", setting.name, setting.values,
                                setting.fallback.empty() ? "(empty)" : setting.fallback, setting.help)));
}

}  // namespace
}  // namespace floe

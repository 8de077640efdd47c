package statuspage

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The page has two sets of colours, for light and for dark browsers. In each, text can be read on both grounds and lines of
// plots are seen (WCAG 2.2 §1.4.3 and §1.4.11).
func TestColoursCanBeReadInLightAndDark(t *testing.T) {
	if !strings.Contains(string(style), "color-scheme: light dark;") {
		t.Error("the style sheet does not tell browsers that it has both schemes, so their scroll bars stay light")
	}
	light, dark, both := strings.Cut(string(style), "@media (prefers-color-scheme: dark)")
	if !both {
		t.Fatal("the style sheet has no colours for dark browsers")
	}
	dark, _, _ = strings.Cut(dark, "\n}\n")
	names := slices.Sorted(maps.Keys(colours(t, light)))
	for scheme, text := range map[string]string{"light": light, "dark": dark} {
		of := colours(t, text)
		if is := slices.Sorted(maps.Keys(of)); !slices.Equal(is, names) {
			t.Errorf("%s has the colours %q, light has %q", scheme, is, names)
		}
		for name, least := range map[string]float64{"text": 4.5, "quiet": 4.5, "good": 4.5, "warn": 4.5, "reads": 3, "writes": 3, "other": 3} {
			for _, ground := range []string{"ground", "card"} {
				if c := contrast(of[name], of[ground]); c < least {
					t.Errorf("%s: %s on %s has a contrast of %.2f, and needs %.1f", scheme, name, ground, c, least)
				}
			}
		}
	}
	if contrast(colours(t, light)["ground"], colours(t, dark)["ground"]) < 10 {
		t.Error("the dark ground is hardly darker than the light one")
	}
	// A colour outside of the sets would be that of one scheme alone.
	_, rules, _ := strings.Cut(string(style), "* { box-sizing")
	if found := regexp.MustCompile(`#[0-9a-fA-F]{3,8}\b|rgba?\(`).FindString(rules); found != "" {
		t.Errorf("a rule has the colour %s for both schemes", found)
	}
}

// colours returns the luminances (WCAG 2.2, relative luminance) of the colours in a style sheet, by name.
func colours(t *testing.T, text string) map[string]float64 {
	t.Helper()
	all := make(map[string]float64)
	for _, m := range regexp.MustCompile(`--([a-z]+): #([0-9a-f]+);`).FindAllStringSubmatch(text, -1) {
		digits := m[2]
		if len(digits) == 3 {
			digits = strings.Join([]string{digits[:1], digits[:1], digits[1:2], digits[1:2], digits[2:], digits[2:]}, "")
		}
		var rgb [3]uint8
		if _, err := fmt.Sscanf(digits, "%02x%02x%02x", &rgb[0], &rgb[1], &rgb[2]); err != nil {
			t.Fatalf("--%s: %v", m[1], err)
		}
		for i, weight := range []float64{.2126, .7152, .0722} {
			c := float64(rgb[i]) / 255
			if c <= .04045 {
				c /= 12.92
			} else {
				c = math.Pow((c+.055)/1.055, 2.4)
			}
			all[m[1]] += weight * c
		}
	}
	return all
}

// contrast returns the ratio of two luminances: 1 of the same, 21 of black and white.
func contrast(a, b float64) float64 { return (max(a, b) + .05) / (min(a, b) + .05) }

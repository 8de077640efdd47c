package config

import (
	"fmt"
	"strings"
)

// Nearest returns the one of words that the user probably meant by word: one that differs in the case of
// letters, in '_' or '-', or in some letters, or one that begins like it. It returns "" if there is none.
func Nearest(word string, words []string) (nearest string) {
	plain := func(s string) string { return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(s)) }
	least, exact := max(1, len(word)/3)+1, 0
	for _, w := range words {
		a, b := plain(word), plain(w)
		d := distance(a, b)
		was := d
		if short, long := min(len(a), len(b)), max(len(a), len(b)); short >= 4 && d == long-short && (strings.HasPrefix(a, b) || strings.HasPrefix(b, a)) {
			d = min(d, 1)
		}
		if d < least || d == least && was < exact {
			nearest, least, exact = w, d, was
		}
	}
	return nearest
}

// didYouMean returns the question whether the user meant one of words, or "".
func didYouMean(word string, words []string) string {
	if n := Nearest(word, words); n != "" {
		return fmt.Sprintf("did you mean %q? Otherwise ", n)
	}
	return ""
}

// distance returns how many letters have to be inserted, removed, replaced or exchanged with their
// neighbour to make b of a.
func distance(a, b string) int {
	before, last, now := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		now[0] = i + 1
		for j := range len(b) {
			replaced := last[j]
			if a[i] != b[j] {
				replaced++
			}
			now[j+1] = min(replaced, last[j+1]+1, now[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				now[j+1] = min(now[j+1], before[j-1]+1)
			}
		}
		before, last, now = last, now, before
	}
	return last[len(b)]
}

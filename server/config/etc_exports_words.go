package config

import (
	"strconv"
	"strings"
)

// An exportLine is a line of /etc/exports, with the lines that continue it.
type exportLine struct {
	number int
	text   string
}

// exportLines splits a file in the form of exports(5) into lines, without comments. A line that ends with '\'
// goes on in the next one.
func exportLines(text string) (all []exportLine) {
	var one exportLine
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimRight(line, "\r")
		if one.number == 0 {
			one.number = i + 1
		}
		if at := strings.IndexByte(line, '#'); at >= 0 {
			line = line[:at]
		}
		before, continues := strings.CutSuffix(line, `\`)
		if one.text += before; continues {
			one.text += " "
			continue
		}
		all = append(all, one)
		one = exportLine{}
	}
	if one.text != "" {
		all = append(all, one)
	}
	return all
}

// exportWords splits a line at its blanks. A path with blanks is in double quotes, or has them as \040.
func exportWords(line string) (words []string) {
	var word strings.Builder
	inside, quoted := false, false
	end := func() {
		if inside {
			words = append(words, word.String())
		}
		word.Reset()
		inside = false
	}
	for i := 0; i < len(line); i++ {
		switch b := line[i]; {
		case b == '"':
			inside, quoted = true, !quoted
		case b == '\\' && i+3 < len(line):
			if n, err := strconv.ParseUint(line[i+1:i+4], 8, 8); err == nil {
				word.WriteByte(byte(n))
				inside, i = true, i+3
				continue
			}
			word.WriteByte(b)
		case !quoted && (b == ' ' || b == '\t'):
			end()
		default:
			word.WriteByte(b)
			inside = true
		}
	}
	end()
	return words
}

package identity

import (
	"bufio"
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
)

// databases holds getent's names of the databases, by kind.
var databases = [2]string{User: "passwd", Group: "group"}

func digits(id uint32) string { return strconv.FormatUint(uint64(id), 10) }

// look looks up a user or a group by its name, or by the digits of its number: first in the file,
// then through Config.Ask.
func (m *Map) look(kind Kind, key string) *entry {
	line, err := fileLine(m.files[kind], func(f []string) bool { return f[0] == key || f[2] == key })
	e := parse(line)
	if err == nil && (!e.found || e.name != key && digits(e.id) != key) {
		var answer []byte
		answer, err = m.cfg.Ask(context.Background(), databases[kind], key)
		e = parse(string(answer))
	}
	if err != nil {
		e = &entry{failed: true}
	}
	if e.found && e.name != key && digits(e.id) != key {
		// The answer is about another key, such as another spelling of the name.
		e.found = false
	}
	age := m.cfg.Age
	switch {
	case e.failed:
		age = failedFor
	case !e.found:
		age = m.cfg.UnknownAge
	}
	e.until = m.cfg.Now().Add(age)
	return e
}

// parse reads a line of passwd or group. The name is the first field, the number the third.
func parse(line string) *entry {
	f := strings.Split(strings.TrimRight(line, "\n"), ":")
	if len(f) < 4 {
		return &entry{}
	}
	id, ok := ParseNumber([]byte(f[2]))
	return &entry{name: f[0], id: id, found: ok && wellFormed([]byte(f[0]))}
}

// maxLine is the length of the longest line that is read, in bytes. The line of a group with
// many members is long.
const maxLine = 1 << 20

// fileLine splits each line of a file into fields at the colons, and passes the fields to fits. It
// returns the first line for which fits returns true, or "" if there is none.
func fileLine(path string, fits func(fields []string) bool) (found string, err error) {
	err = eachLine(path, func(line string) bool {
		if f := strings.SplitN(line, ":", 5); len(f) >= 4 && fits(f) {
			found = line
		}
		return found == ""
	})
	return found, err
}

// eachLine calls f for each line of a file until f returns false. A missing file has no
// lines.
func eachLine(path string, f func(line string) bool) error {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	s := bufio.NewScanner(file)
	s.Buffer(make([]byte, 0, 4096), maxLine)
	for s.Scan() && f(s.Text()) {
	}
	return s.Err()
}

//go:build hostile

package hostile

import (
	"os"
	"path/filepath"
	"testing"
)

// A compound with the largest offsets, lengths, counts, cookies, bitmaps or names costs the
// daemon no more than one ordinary call. The files have thousands of holes or 8 EiB.
func TestExtremes(t *testing.T) {
	s := stage(t, Config{})
	s.Sessions()
	for name, fill := range map[string]func(f *os.File) error{
		"sparse": func(f *os.File) error { return f.Truncate(1<<63 - 1) },
		"holes": func(f *os.File) error {
			for i := range int64(4096) {
				if _, err := f.WriteAt([]byte{1}, i*8192); err != nil {
					return err
				}
			}
			return nil
		},
	} {
		makeFile(t, filepath.Join(s.Directory, name), nil)
		f, err := os.OpenFile(filepath.Join(s.Directory, name), os.O_RDWR, 0)
		if err == nil {
			err = fill(f)
			f.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	h := s.lookUp([]string{"holes", "sparse"})
	for _, transport := range Transports {
		s.Attack(Extremes{transport, 4, Extreme(h[0], h[1], s.Open.Victim, s.Open.Many)}, Strangers(4))
	}
	s.JudgeFaults()
	s.Judge()
}

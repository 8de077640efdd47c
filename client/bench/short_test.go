package bench

import (
	"testing"
	"time"
)

// short rounds a latency to its significant digits: below 10 µs it keeps all, below 10 ms a tenth
// of a microsecond, otherwise a tenth of a millisecond.
func TestShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                        "0s",
		1234:                     "1.234µs",
		9_999:                    "9.999µs",
		10_000:                   "10µs",
		12_345:                   "12.3µs",
		123_456:                  "123.5µs",
		9_999_949:                "9.9999ms",
		10_000_000:               "10ms",
		12_345_678:               "12.3ms",
		1_234_567_890:            "1.2346s",
		61*time.Second + 123_456: "1m1.0001s",
	} {
		if got := short(d); got != want {
			t.Errorf("%d ns: %q, want %q", d, got, want)
		}
	}
}

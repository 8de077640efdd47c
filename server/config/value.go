package config

import (
	"encoding"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// assign sets a field of a Config, to which the argument points, to words. A field that is not a list
// takes one word.
func assign(field any, words []string) (err error) {
	switch f := field.(type) {
	case encoding.TextUnmarshaler:
		return f.UnmarshalText([]byte(words[0]))
	case *string:
		*f = words[0]
	case *int:
		n, err := strconv.ParseInt(words[0], 0, strconv.IntSize)
		if err != nil {
			return fmt.Errorf("%s is too large", words[0])
		}
		*f = int(n)
	case *bool:
		*f, err = strconv.ParseBool(words[0])
	case **bool:
		*f = new(bool)
		**f, err = strconv.ParseBool(words[0])
	case *[]string:
		*f = words
	case *[]int:
		*f = nil
		for _, word := range words {
			for one := range strings.SplitSeq(word, ",") { // a flag may have several
				n, err := strconv.ParseInt(strings.TrimSpace(one), 0, strconv.IntSize)
				if err != nil {
					return fmt.Errorf("%q is not a number: write one such as 1", one)
				}
				*f = append(*f, int(n))
			}
		}
	case *[]Listen:
		*f = make([]Listen, len(words))
		for i, word := range words {
			if err := (*f)[i].UnmarshalText([]byte(word)); err != nil {
				return err
			}
		}
	}
	return err
}

// Listen is an address to listen on: IP:PORT, :PORT, or "none".
type Listen struct {
	Addr netip.AddrPort
	// If All is true, the server listens on every IPv4 and IPv6 address. If None is true, it does not
	// listen.
	All, None bool
}

// UnmarshalText parses IP:PORT, :PORT, or "none".
func (l *Listen) UnmarshalText(b []byte) error {
	s := string(b)
	if s == "none" {
		*l = Listen{None: true}
		return nil
	}
	if port, ok := strings.CutPrefix(s, ":"); ok {
		s = "[::]:" + port
		l.All = true
	}
	a, err := netip.ParseAddrPort(s)
	if err != nil {
		return notListening(string(b))
	}
	l.Addr = a
	return nil
}

// notListening returns the error for a word that is no address to listen on, with what was probably meant.
func notListening(word string) error {
	at := strings.LastIndexByte(word, ':')
	host, port := word[:max(at, 0)], word[at+1:]
	alone, aloneErr := netip.ParseAddr(strings.Trim(word, "[]"))
	n, notNumber := strconv.Atoi(port)
	_, hostErr := netip.ParseAddr(host)
	switch {
	case strings.Contains(word, ","):
		return fmt.Errorf("%q is not one address: write each in quotes, separated by ',', or repeat the flag", word)
	case at < 0 && notNumber == nil:
		return fmt.Errorf("%q has no address: write :%s for every address", word, word)
	case strings.Count(host, ":") > 1 && hostErr == nil && notNumber == nil && n > 1024:
		return fmt.Errorf("%q: an IPv6 address with a port needs brackets: write [%s]:%s", word, host, port)
	case aloneErr == nil:
		return fmt.Errorf("%q has no port: write %s", word, netip.AddrPortFrom(alone, DefaultTCPPort))
	case notNumber == nil && (n < 1 || n > math.MaxUint16):
		return fmt.Errorf("%q: ports are from 1 to %d", word, math.MaxUint16)
	case at > 0 && host == "localhost":
		return fmt.Errorf("%q is not an address to listen on: write 127.0.0.1:%s", word, port)
	}
	return fmt.Errorf("%q is not an address to listen on: write IP:PORT such as 192.0.2.1:2049, [2001:db8::1]:20049, or :2049 for every address", word)
}

// String returns the form that UnmarshalText reads.
func (l Listen) String() string {
	switch {
	case l.None:
		return "none"
	case l.All:
		return ":" + strconv.Itoa(int(l.Addr.Port()))
	}
	return l.Addr.String()
}

// Size is a number of bytes: 4096, 64K, 256M, 2G, with or without "B" or "iB".
type Size int64

// UnmarshalText parses a size.
func (z *Size) UnmarshalText(b []byte) error {
	s := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSpace(string(b)), "iB"), "B")
	shift := 0
	if n := len(s); n > 0 {
		if i := strings.IndexByte("KMGT", s[n-1]&^0x20); i >= 0 {
			shift, s = 10*(i+1), strings.TrimSpace(s[:n-1])
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > (1<<62)>>shift {
		return fmt.Errorf("%q is not a size: write bytes, or a number with K, M, G or T such as 256M", b)
	}
	*z = Size(n << shift)
	return nil
}

// String returns the size in the largest unit in which it is a whole number.
func (z Size) String() string {
	unit := 0
	for n := z; n != 0 && n%1024 == 0 && unit < 4; n /= 1024 {
		unit++
	}
	return strconv.FormatInt(int64(z)>>(10*unit), 10) + []string{"", "K", "M", "G", "T"}[unit]
}

// Duration is a time.Duration as Go writes it: 30s, 5m.
type Duration time.Duration

// UnmarshalText parses a duration. It rejects a number without a unit, because it is not clear
// whether the user means seconds or milliseconds.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil || v < 0 {
		if n, err := strconv.ParseUint(string(b), 10, 32); err == nil {
			return noUnit(n)
		}
		return fmt.Errorf("%q is not a duration: write a number with a unit such as 30s or 5m", b)
	}
	*d = Duration(v)
	return nil
}

// noUnit returns the error for the duration n without a unit.
func noUnit(n uint64) error {
	return fmt.Errorf("%d has no unit: write \"%ds\" for seconds, or another unit (ms, m, h)", n, n)
}

// String returns the shortest form that UnmarshalText reads.
func (d Duration) String() string {
	s := strings.Replace(time.Duration(d).String(), "µs", "us", 1)
	if short, cut := strings.CutSuffix(s, "m0s"); cut {
		s = short + "m"
	}
	if short, cut := strings.CutSuffix(s, "h0m"); cut {
		s = short + "h"
	}
	return s
}

// Dir is the absolute path of a directory, which may not exist yet. (It is a struct, because the TOML
// decoder does not call UnmarshalText of string types.)
type Dir struct{ Path string }

// UnmarshalText makes the path absolute.
func (d *Dir) UnmarshalText(b []byte) (err error) {
	switch {
	case len(b) == 0:
		return errors.New("an export needs a directory: DIR[:/name][,option...]")
	case b[0] == '~':
		return fmt.Errorf("%q: only a shell knows ~, and only at the beginning of a word: write the whole path, such as /root/srv", b)
	}
	d.Path, err = filepath.Abs(string(b))
	return err
}

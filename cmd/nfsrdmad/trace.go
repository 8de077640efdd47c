package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/server/admin"
)

func traceCommand() *cobra.Command {
	c := listCommand("trace", "Show the calls of clients as they end",
		"Show each call as it ends: when, how long it took the server, the client, the\noperations, the status, and the path. It goes on until Ctrl-C. It delays no client:\nif calls end faster than it prints them, it leaves some out, and counts these.",
		admin.PrintTrace(os.Stdout), "client", "export")
	run := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error { return untilCtrlC(run(c, args)) }
	return c
}

// untilCtrlC returns the error of a command that has no end of its own, so that a signal is its usual end.
func untilCtrlC(err error) error {
	if errors.Is(err, errEnded) {
		return nil
	}
	return err
}

func topCommand() *cobra.Command {
	var flags askFlags
	var seconds, times int
	c := &cobra.Command{
		Use:   "top",
		Short: "Show what the daemon does now: exports, clients, operations, latency",
		Long: `Show the exports, clients and operations with most calls, how many calls failed, and how
long they took the server, again and again, until Ctrl-C. On a terminal each page
replaces the one before. With --json each page is an object on a line of its own.`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if seconds < 1 || seconds > 60 {
				return usageError{errors.New("--seconds: use a number from 1 to 60")}
			}
			if times < 0 {
				return usageError{errors.New("--times: use 0, for no end, or a larger number")}
			}
			ctx, stop := untilSignal() // also between two pages
			defer stop()
			for n := 0; ctx.Err() == nil && (times == 0 || n < times); n++ {
				if err := flags.ask("GET", "/top", url.Values{"seconds": {fmt.Sprint(seconds)}}, printTop); err != nil {
					return untilCtrlC(err)
				}
			}
			return nil
		},
	}
	c.Flags().IntVar(&seconds, "seconds", 2, "the seconds that a page covers")
	c.Flags().IntVar(&times, "times", 0, "the number of pages; 0 means no end")
	flags.add(c.Flags(), true)
	return c
}

// printTop prints a page. On a terminal it fits, and replaces the page before.
func printTop(body io.Reader) error {
	var top admin.Top
	if err := json.NewDecoder(body).Decode(&top); err != nil {
		return fmt.Errorf("the answer of the daemon cannot be read: %w", err)
	}
	var page bytes.Buffer
	most := 20
	if size, err := unix.IoctlGetWinsize(int(os.Stdout.Fd()), unix.TIOCGWINSZ); err == nil && size.Row > 0 {
		page.WriteString("\x1b[H\x1b[2J") // to the corner, and clear
		most = max((int(size.Row)-10)/3, 1)
	}
	if err := top.Print(&page, most); err != nil {
		return err
	}
	_, err := os.Stdout.Write(page.Bytes())
	return err
}

package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"
)

var (
	errDeclined     = errors.New("nothing done")
	errStillRunning = errors.New("it still runs; gave up waiting after --timeout")
)

// yesFlag adds --yes.
func yesFlag(cmd *cobra.Command, yes *bool) {
	cmd.Flags().BoolVar(yes, "yes", false, "do not ask")
}

// needsYes refuses a dangerous command that cannot ask and has not been told not to.
func needsYes(cmd *cobra.Command, yes bool) error {
	if yes || isatty.IsTerminal(os.Stdin.Fd()) {
		return nil
	}
	return usagef(cmd, "stdin is no terminal, so that %s cannot ask: give --yes", cmd.CommandPath())
}

// confirm asks, unless the answer was given with --yes.
func confirm(cmd *cobra.Command, yes bool, format string, args ...any) error {
	if yes {
		return nil
	}
	printf(cmd.ErrOrStderr(), "%s [y/N] ", fmt.Sprintf(format, args...))
	answer, _ := bufio.NewReader(cmd.InOrStdin()).ReadString('\n') // an end of input is a no
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errDeclined
}

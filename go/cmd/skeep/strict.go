package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// once is a flag's value that is not empty, and given once: a second one would silently win.
type once struct {
	pflag.Value
	given *string
}

func (o *once) Set(s string) error {
	switch {
	case s == "":
		return errors.New("the value is empty")
	case o.given != nil && *o.given != s:
		return fmt.Errorf("already given as %q", *o.given)
	}
	o.given = &s
	return o.Value.Set(s)
}

// strict makes every flag of the commands that takes one value take it once, and what groups commands refuse names
// that it does not know.
func strict(c *cobra.Command) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if _, list := f.Value.(pflag.SliceValue); !list {
			f.Value = &once{Value: f.Value}
		}
	})
	if c.HasSubCommands() && !c.Runnable() {
		if c.Args == nil {
			c.Args = cobra.NoArgs
		}
		c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	}
	for _, sub := range c.Commands() {
		strict(sub)
	}
}

// helpCommand is help for a command, and an error for what is none.
func helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about a command",
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			var all []string
			if len(args) == 0 {
				for _, c := range root.Commands() {
					if c.IsAvailableCommand() {
						all = append(all, c.Name())
					}
				}
			}
			return all, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			c, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return fmt.Errorf("unknown command %q: see %s help", strings.Join(args, " "), root.Name())
			}
			c.InitDefaultHelpFlag()
			return c.Help()
		},
	}
}

"""The checks of `magnetar doctor`: one module for each subject."""

"""Wrong pairs of images: look-alikes whose matches agree, found from tracks."""
